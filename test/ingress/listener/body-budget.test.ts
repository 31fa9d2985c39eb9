import test from 'ava';
import fc from 'fast-check';
import { createBodyBudget } from '../../../ingress/listener/body-budget.ts';
import { fakeClock } from '../../support/fake-clock.ts';

const piece = 65_536;
const bytesMax = 16 * piece;

/** A body that arrives in chunks unless it is paused. */
function createSource() {
  let paused = false;
  return {
    isPaused: () => paused,
    pause() {
      paused = true;
    },
    resume() {
      paused = false;
    },
  };
}

function begin(budget: ReturnType<typeof createBodyBudget>, holder: string) {
  const source = createSource();
  const share = budget.enter(holder, source);
  if (share === undefined) throw new Error('the budget is used up');
  return { ...share, source };
}

test('a body takes its received bytes until it leaves, and leaving twice returns them once', (t) => {
  const budget = createBodyBudget({ bytesMax });
  const [one, other] = [begin(budget, 'a'), begin(budget, 'b')];
  t.is(budget.bytesHeld(), 0, 'announced bytes take nothing');
  one.add(100);
  other.add(50);
  t.is(budget.bytesHeld(), 150);
  one.arrived();
  t.is(budget.bytesHeld(), 150, 'it waits to be queued');
  one.leave();
  one.leave();
  t.is(budget.bytesHeld(), 50);
});

test('no body starts while the budget is used up, and one starts as soon as there is room', (t) => {
  const budget = createBodyBudget({ bytesMax });
  const one = begin(budget, 'a');
  one.add(bytesMax - 1);
  const other = budget.enter('b', createSource());
  t.truthy(other);
  other?.add(1);
  t.is(budget.enter('c', createSource()), undefined);
  other?.leave();
  t.truthy(budget.enter('c', createSource()));
});

test('while the budget is used up only the oldest body continues, and the next one after it', (t) => {
  const budget = createBodyBudget({ bytesMax });
  const bodies = ['a', 'b', 'c', 'd', 'e'].map((holder) => begin(budget, holder));
  for (const { add } of bodies) add(bytesMax / 4);
  const paused = () => bodies.map(({ source }) => source.isPaused());
  t.deepEqual(paused(), [false, false, false, true, true], 'the ones before the last had room');
  for (const { add } of bodies) add(1);
  t.deepEqual(paused(), [false, true, true, true, true]);
  bodies[0]?.arrived();
  t.deepEqual(paused(), [false, false, true, true, true]);
  bodies[0]?.leave();
  t.is(budget.bytesHeld(), bytesMax + 4);
  bodies[1]?.arrived();
  bodies[1]?.leave();
  t.deepEqual(paused(), [false, false, false, false, false], 'there is room for the next chunk of each');
});

test('bodies of one holder wait beyond a quarter of the budget, and those of others continue', (t) => {
  const budget = createBodyBudget({ bytesMax });
  const mine = [1, 2, 3].map(() => begin(budget, 'mine'));
  for (const { add } of mine) add(bytesMax / 8);
  const other = begin(budget, 'other');
  other.add(piece);
  t.deepEqual(
    mine.map(({ source }) => source.isPaused()),
    [false, true, true],
  );
  t.false(other.source.isPaused());
  mine[0]?.leave();
  t.false(mine[1]?.source.isPaused());
});

test('a body counts as held up while it is paused, and if it was paused for most of its time', async (t) => {
  const clock = fakeClock();
  const budget = createBodyBudget({ bytesMax, clock });
  const [first, second] = [begin(budget, 'a'), begin(budget, 'b')];
  const isHeldUp = () => [first, second].map((body) => body.isHeldUp(1_000));
  first.add(piece);
  second.add(bytesMax);
  t.deepEqual(isHeldUp(), [false, true]);
  await clock.advance(500);
  first.leave();
  second.leave();
  t.deepEqual(isHeldUp(), [false, false], 'it was paused for half of its time');
  const [third, fourth] = [begin(budget, 'a'), begin(budget, 'b')];
  third.add(piece);
  fourth.add(bytesMax - piece);
  await clock.advance(501);
  third.leave();
  t.false(fourth.source.isPaused());
  t.true(fourth.isHeldUp(1_000));
  t.false(fourth.isHeldUp(10_000));
});

/** Bodies of four accounts that fill the budget and are not complete. */
function fill(budget: ReturnType<typeof createBodyBudget>) {
  const bodies = ['a', 'b', 'c', 'd'].map((account) => begin(budget, account));
  for (const { add } of bodies) add(bytesMax / 4);
  return bodies;
}
const cutOf = (bodies: readonly { signal: AbortSignal }[]) => bodies.map(({ signal }) => signal.aborted);

test('while the budget is used up, stalled bodies are ended, the largest first', async (t) => {
  const clock = fakeClock();
  const budget = createBodyBudget({ bytesMax, clock });
  const small = begin(budget, 'e');
  small.add(1);
  const large = begin(budget, 'f');
  large.add(piece);
  const rest = begin(budget, 'g');
  rest.add(bytesMax);
  t.true(rest.source.isPaused());
  t.is(budget.enter('h', createSource()), undefined);
  await clock.advance(5_000);
  t.deepEqual(cutOf([small, large, rest]), [false, true, false], 'a paused body is not slow');
  t.like(large.signal.reason, { code: 'REQUEST_TIMEOUT' });
  t.is(budget.bytesHeld(), bytesMax + 1);
  large.add(piece);
  t.is(budget.bytesHeld(), bytesMax + 1, 'its later bytes are not held');
  await clock.advance(250);
  t.deepEqual(cutOf([small, large, rest]), [true, true, false]);
  await clock.advance(4_000);
  t.false(rest.source.isPaused(), 'the oldest continues');
  t.false(rest.signal.aborted, 'its time counts from then on');
  await clock.advance(1_000);
  t.true(rest.signal.aborted);
  t.is(budget.bytesHeld(), 0);
  t.truthy(budget.enter('h', createSource()));
  await clock.advance(1_000);
  t.is(clock.pending(), 0, 'nothing is checked while there is room');
});

/** Whether a body that arrives at these rates, in bytes per second, is ended in a budget that others have used up. */
async function makesRoom(rates: readonly number[]): Promise<boolean> {
  const clock = fakeClock();
  const budget = createBodyBudget({ bytesMax, clock });
  const body = begin(budget, 'a');
  begin(budget, 'b').add(bytesMax);
  for (const bytes of rates) {
    body.add(bytes);
    await clock.advance(1_000);
  }
  return body.signal.aborted;
}

test('a body at 64 KiB per second is never ended, and one that is slow for long is', async (t) => {
  t.false(await makesRoom(Array(30).fill(piece)));
  t.true(await makesRoom(Array(30).fill(piece / 2)));
  t.false(await makesRoom([0, 0, 0, 0, piece, piece, piece, piece, piece]), 'a later burst does not compensate');
  t.true(await makesRoom([10 * piece, 0, 0, 0, 0, 0]), 'its earlier rate does not count');
});

test('slow bodies continue while there is room', async (t) => {
  const clock = fakeClock();
  const budget = createBodyBudget({ bytesMax, clock });
  const bodies = fill(budget);
  bodies[3]?.leave();
  await clock.advance(60_000);
  t.deepEqual(cutOf(bodies), [false, false, false, false]);
});

test('in any order of arrivals the bound holds, one body continues unless those that arrived are too many, and no byte stays counted', (t) => {
  const step = fc.record({
    kind: fc.constantFrom('begin', 'add', 'add', 'add', 'arrived', 'leave'),
    pick: fc.nat(),
    holder: fc.nat(3),
  });
  fc.assert(
    fc.property(fc.array(step, { minLength: 50, maxLength: 300 }), (steps) => {
      const budget = createBodyBudget({ bytesMax });
      const open: (ReturnType<typeof begin> & { holder: number; bytes: number; isArriving: boolean })[] = [];
      const arrivedOf = (holder?: number) =>
        open
          .filter((body) => !body.isArriving && body.holder === (holder ?? body.holder))
          .reduce((sum, { bytes }) => sum + bytes, 0);
      const bodyMax = 8 * piece;
      let most = 0;
      for (const { kind, pick, holder } of steps) {
        if (kind === 'begin' && budget.bytesHeld() < bytesMax) {
          open.push({ ...begin(budget, `${holder}`), holder, bytes: 0, isArriving: true });
        }
        const body = open[pick % open.length];
        if (body === undefined) continue;
        if (kind === 'add' && body.isArriving && !body.source.isPaused() && body.bytes < bodyMax) {
          body.add(piece);
          body.bytes += piece;
        }
        if (kind === 'arrived' && body.isArriving) {
          body.arrived();
          body.isArriving = false;
        }
        if (kind === 'leave') {
          body.leave();
          open.splice(open.indexOf(body), 1);
        }
        const arriving = open.filter(({ isArriving }) => isArriving);
        const oldest = arriving.find(({ holder }) => arrivedOf(holder) < bytesMax / 4);
        if (arrivedOf() < bytesMax && oldest?.source.isPaused() === true) return false;
        most = Math.max(most, budget.bytesHeld() - arriving.length * piece);
      }
      for (const { leave } of open) leave();
      return most <= bytesMax + bodyMax && budget.bytesHeld() === 0;
    }),
  );
  t.pass();
});

test('the room of a body is the number of bytes that it could add without a wait', (t) => {
  const budget = createBodyBudget({ bytesMax });
  const [oldest, one, other] = [begin(budget, 'a'), begin(budget, 'b'), begin(budget, 'b')];
  t.true(oldest.hasRoomFor(2 * bytesMax), 'the oldest always continues');
  t.true(other.hasRoomFor(bytesMax / 4 - 1));
  t.false(other.hasRoomFor(bytesMax / 4), 'the share of its account');
  other.add(bytesMax / 4);
  t.true(other.source.isPaused());
  t.true(one.hasRoomFor(bytesMax / 2), 'the oldest of its account');
  t.false(one.hasRoomFor(bytesMax));
});
