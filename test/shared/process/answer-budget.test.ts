import test from 'ava';
import { createAnswerBudget } from '../../../shared/process/answer-budget.ts';
import { untilCollected } from '../../support/collect-garbage.ts';
import { fakeClock } from '../../support/fake-clock.ts';

const piece = 65_536;
const bytesMax = 16 * piece;

function openBudget() {
  const clock = fakeClock();
  let ended = 0;
  const budget = createAnswerBudget({ bytesMax, clock, onEnded: () => ended++ });

  /** An answer that is read unless its source is paused. */
  function begin(holder: string) {
    let isPaused = false;
    const held = budget.hold(holder);
    const source = {
      pause() {
        isPaused = true;
      },
      resume() {
        isPaused = false;
      },
    };
    held.readFrom(source);
    return { ...held, source, isPaused: () => isPaused };
  }
  return { budget, begin, clock, ended: () => ended };
}

test('an answer counts until it is released, and releasing it twice gives its bytes back once', (t) => {
  const { budget, begin } = openBudget();
  const [one, other] = [begin('a'), begin('b')];
  one.add(100);
  other.add(50);
  one.arrived();
  t.is(budget.bytesHeld(), 150);
  one.add(-40);
  t.is(budget.bytesHeld(), 110, 'its client has read a part');
  one.release();
  one[Symbol.dispose]();
  one.add(1_000);
  t.is(budget.bytesHeld(), 50, 'what comes later is not held');
});

test('an answer of the next backend replaces that of the one before', (t) => {
  const { budget, begin } = openBudget();
  const one = begin('a');
  one.add(100);
  one.readFrom(one.source);
  t.is(budget.bytesHeld(), 0);
  one.add(5);
  t.is(budget.bytesHeld(), 5);
});

test('past the bound only the oldest answer is read on, and the next one after it', (t) => {
  const { begin } = openBudget();
  const answers = ['a', 'b', 'c', 'd', 'e'].map(begin);
  for (const { add } of answers) add(bytesMax / 4);
  const paused = () => answers.map(({ isPaused }) => isPaused());
  t.deepEqual(paused(), [false, false, false, true, true], 'the first three were read when there was room');
  for (const { add } of answers) add(piece);
  t.deepEqual(paused(), [false, true, true, true, true]);
  answers[0]?.arrived();
  t.deepEqual(paused(), [true, false, true, true, true].with(0, false));
  for (const answer of answers.slice(0, 3)) answer.release();
  t.deepEqual(paused(), [false, false, false, false, false], 'there is room again');
});

test('an account has a quarter, and past it only its oldest answer is read on', (t) => {
  const { begin } = openBudget();
  const [first, second, stranger] = [begin('a'), begin('a'), begin('b')];
  first.add(bytesMax / 8);
  second.add(bytesMax / 8);
  stranger.add(2 * piece);
  first.add(piece);
  t.deepEqual(
    [first, second, stranger].map(({ isPaused }) => isPaused()),
    [false, true, false],
  );
  first.release();
  t.false(second.isPaused());
});

test('an answer of one piece never waits', (t) => {
  const { budget, begin } = openBudget();
  begin('a').add(bytesMax);
  const small = begin('b');
  small.add(piece);
  t.false(small.isPaused());
  small.add(1);
  t.true(small.isPaused());
  t.is(budget.paused(), 1);
});

test('while the budget is used up, the largest answer whose client is slow is ended, until there is room', async (t) => {
  const { budget, begin, clock, ended } = openBudget();
  const names: string[] = [];
  const [large, small, read, arriving] = [begin('a'), begin('b'), begin('c'), begin('d')];
  large.add(3 * piece + 2);
  small.add(3 * piece);
  read.add(3 * piece + 1);
  for (const each of [large, small, read]) each.arrived();
  large.stall(() => names.push('large'));
  small.stall(() => names.push('small'));
  read.stall(() => names.push('read'));
  await clock.advance(20_000);
  read.flow(9 * piece);
  t.is(clock.pending(), 0);
  t.deepEqual(names, [], 'there is room');
  for (const holder of ['e', 'f']) begin(holder).add(3 * piece);
  arriving.add(piece);
  t.deepEqual(names, ['large']);
  t.is(budget.bytesHeld(), 13 * piece + 1);
  arriving.add(3 * piece - 1);
  t.deepEqual(names, ['large', 'small']);
  t.is(ended(), 2);
  for (const holder of ['g', 'h']) begin(holder).add(2 * piece);
  await clock.advance(8_750);
  t.deepEqual(names, ['large', 'small'], 'its client has taken as much as in nine seconds');
  await clock.advance(250);
  t.deepEqual(names, ['large', 'small', 'read']);
  await clock.advance(250);
  t.is(clock.pending(), 0, 'none is left to be ended');
});

test('a client that takes a little now and then is slow', async (t) => {
  const { begin, clock, ended } = openBudget();
  const [slow, fast] = [begin('a'), begin('b')];
  for (const each of [slow, fast]) {
    each.add(bytesMax / 2);
    each.arrived();
    each.stall(() => {});
  }
  for (let second = 0; second < 9; second++) {
    await clock.advance(1_000);
    slow.flow(piece / 2);
    fast.flow(piece);
  }
  t.is(ended(), 0);
  for (let second = 0; second < 10; second++) {
    await clock.advance(1_000);
    slow.flow(piece / 2);
    fast.flow(piece);
  }
  t.is(ended(), 1);
});

test('past twice the budget a client need not be slow', (t) => {
  const { budget, begin, ended } = openBudget();
  for (const holder of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i']) {
    const each = begin(holder);
    each.arrived();
    each.stall(() => {});
    each.add(bytesMax / 4 - 1);
  }
  t.is(ended(), 1);
  t.true(budget.bytesHeld() <= 2 * bytesMax);
});

test('while an account holds its part, its largest answer whose client is slow is ended, and none of another account', async (t) => {
  const { budget, begin, clock } = openBudget();
  const names: string[] = [];
  const [unread, foreign, waiting] = [begin('a'), begin('b'), begin('a')];
  unread.add(3 * piece);
  foreign.add(3 * piece);
  for (const each of [unread, foreign]) each.arrived();
  unread.stall(() => names.push('unread'));
  foreign.stall(() => names.push('foreign'));
  begin('a').add(1);
  waiting.add(1);
  const later = begin('a');
  later.add(2 * piece);
  t.true(later.isPaused());
  await clock.advance(10_000);
  t.deepEqual(names, ['unread']);
  t.false(later.isPaused());
  t.is(budget.paused(), 0);
});

test('answers that have arrived and wait for their clients leave room for none past the bound, not even for the oldest', (t) => {
  const { budget, begin } = openBudget();
  const largest = 8 * piece;
  const waiting = Array.from({ length: 40 }, (_, index) => ({ ...begin(`account ${index % 8}`), bytes: 0 }));
  const mayBeRead = () => waiting.find(({ isPaused, bytes }) => !isPaused() && bytes < largest);
  for (let next = mayBeRead(); next !== undefined; next = mayBeRead()) {
    next.add(piece);
    next.bytes += piece;
    if (next.bytes === largest) next.arrived();
  }
  // A source is paused after its second piece.
  t.true(budget.bytesHeld() <= bytesMax + largest + waiting.length * 2 * piece, `${budget.bytesHeld() / piece} pieces`);
  t.true(waiting.some(({ bytes }) => bytes < largest));
});

test('an account whose answers wait for their clients does not hold up others, also when the oldest answer is its own', (t) => {
  const { begin } = openBudget();
  const done = begin('a');
  done.add(bytesMax / 4);
  done.arrived();
  const [blocked, other, filling] = [begin('a'), begin('b'), begin('c')];
  blocked.add(2 * piece);
  t.true(blocked.isPaused(), 'its account has its part');
  filling.add(bytesMax);
  other.add(2 * piece);
  t.false(other.isPaused(), 'the oldest of those whose account has room');
  t.true(filling.isPaused());
  done.release();
  t.false(blocked.isPaused());
});

test('the part of an account is one, also when some of its answers hold nothing for a while', (t) => {
  const { begin } = openBudget();
  const stream = begin('a');
  stream.arrived();
  const other = begin('a');
  other.release();
  stream.add(bytesMax / 4);
  const later = begin('a');
  later.add(2 * piece);
  t.true(later.isPaused());
});

test('an answer that has left no longer refers to what would have ended it', async (t) => {
  const { begin } = openBudget();
  const answer = begin('a');
  let request: object | undefined = { isRequest: true };
  const kept = new WeakRef(request);
  answer.stall(createEnd(request));
  request = undefined;
  answer.release();
  t.true(await untilCollected(kept));
  t.is(answer.isPaused(), false, 'it is still there itself');
});

function createEnd(request: object): () => void {
  return () => Object.assign(request, { isEnded: true });
}
