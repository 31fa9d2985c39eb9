import test from 'ava';
import { createReplyBuffer, type ReplyEvent } from '../../../ingress/replies/reply-buffer.ts';
import { ApiError } from '../../../shared/errors.ts';
import { createAnswerBudget } from '../../../shared/process/answer-budget.ts';
import { roomOfBuffer } from '../../support/answer-room.ts';
import { heapInUse } from '../../support/collect-garbage.ts';
import { fakeClock } from '../../support/fake-clock.ts';

const chunk = (text: string): ReplyEvent => ({ kind: 'chunk', text });
const end: ReplyEvent = {
  kind: 'end',
  body: 'x'.repeat(5_000_000),
  usage: { promptTokens: 1, completionTokens: 1, cachedTokens: 0, estimated: false },
};
const failure = new ApiError('UPSTREAM_INTERRUPTED', 'It broke off.');
const mebibyte = 1_048_576;

test('returns events in order, with the text so far in one, also to a reader that came first', async (t) => {
  const buffer = createReplyBuffer(roomOfBuffer());
  const early = buffer.next();
  t.true(buffer.push(chunk('a')));
  t.deepEqual(await early, chunk('a'));
  buffer.push(chunk('b'));
  buffer.push(chunk('c'));
  buffer.push(end);
  t.deepEqual(await buffer.next(), chunk('bc'));
  t.is(await buffer.next(), end);
});

test('drops what is more than 1 MiB ahead of its reader, counted in bytes, and reports it', async (t) => {
  const buffer = createReplyBuffer(roomOfBuffer());
  t.true(buffer.push(chunk('é'.repeat(mebibyte / 2 - 1))));
  t.true(buffer.push(chunk('ab')), 'exactly 1 MiB');
  t.false(buffer.push(chunk('c')));
  buffer.fail(failure);
  t.deepEqual(await buffer.next(), chunk(`${'é'.repeat(mebibyte / 2 - 1)}ab`));
  t.is(await t.throwsAsync(buffer.next()), failure);
});

test('text that a reader has taken makes room again', async (t) => {
  const buffer = createReplyBuffer(roomOfBuffer());
  for (let round = 0; round < 5; round++) {
    t.true(buffer.push(chunk('x'.repeat(mebibyte))));
    await buffer.next();
  }
});

test('a complete answer of any size fits', (t) => {
  t.true(createReplyBuffer(roomOfBuffer()).push(end));
});

test('a failure comes after the earlier events, and again at each further read', async (t) => {
  const buffer = createReplyBuffer(roomOfBuffer());
  buffer.push(chunk('a'));
  buffer.fail(failure);
  t.deepEqual(await buffer.next(), chunk('a'));
  t.is(await t.throwsAsync(buffer.next()), failure);
  t.is(await t.throwsAsync(buffer.next()), failure);
});

test('after a failure there is no end and no other failure: the first failure stays', async (t) => {
  const buffer = createReplyBuffer(roomOfBuffer());
  buffer.push(chunk('a'));
  buffer.fail(failure);
  t.true(buffer.push(chunk('c')));
  t.true(buffer.push(end));
  buffer.fail(new ApiError('REQUEST_TIMEOUT', 'The client went away.'));
  t.deepEqual(await buffer.next(), chunk('a'));
  t.is(await t.throwsAsync(buffer.next()), failure);
});

test('a failure reaches a waiting reader', async (t) => {
  const buffer = createReplyBuffer(roomOfBuffer());
  const waiting = buffer.next();
  buffer.fail(failure);
  t.is(await t.throwsAsync(waiting), failure);
  t.is(await t.throwsAsync(buffer.next()), failure);
});

test('a failure without a reader does not end the process', async (t) => {
  createReplyBuffer(roomOfBuffer()).fail(failure);
  await new Promise((resolve) => setImmediate(resolve));
  t.pass();
});

test('text that waits for a slow reader does not keep its frame in memory', (t) => {
  const before = heapInUse();
  const buffer = createReplyBuffer(roomOfBuffer());
  const frames = 200;
  for (let frame = 0; frame < frames; frame++) {
    const text = `${frame} ${'x'.repeat(65_536)}`.toUpperCase();
    t.true(buffer.push(chunk(text.slice(0, 150))));
  }
  t.true(heapInUse() - before < (frames * 65_536) / 4);
});

const piece = (bytes: number): ReplyEvent => ({ kind: 'piece', bytes: Buffer.alloc(bytes), length: mebibyte });

function openCounted(bytesMax = 16 * mebibyte) {
  const clock = fakeClock();
  const budget = createAnswerBudget({ bytesMax, clock });
  let ended = 0;
  const open = () =>
    createReplyBuffer({
      held: budget.hold('user:alice'),
      source: { pause() {}, resume() {} },
      onStalled: () => ended++,
    });
  return { budget, clock, open, ended: () => ended };
}

test('a piece counts from its arrival until the next event is asked for: until then it is being written', async (t) => {
  const { budget, open } = openCounted();
  const [buffered, waitedFor] = [open(), open()];
  buffered.push(piece(200_000));
  t.is(budget.bytesHeld(), 200_000);
  await buffered.next();
  t.is(budget.bytesHeld(), 200_000);
  const reading = waitedFor.next();
  waitedFor.push(piece(100_000));
  await reading;
  t.is(budget.bytesHeld(), 300_000);
  void buffered.next();
  t.is(budget.bytesHeld(), 100_000);
  void waitedFor.next();
  t.is(budget.bytesHeld(), 0);
});

test('text counts likewise, except pieces of a stream that are smaller than a buffer of its connection', async (t) => {
  const { budget, open } = openCounted();
  const buffer = open();
  for (const [characters, counted] of [
    [16_383, 0],
    [16_384, 16_384],
    [1_000, 0],
  ] as const) {
    const reading = buffer.next();
    buffer.push(chunk('x'.repeat(characters)));
    await reading;
    t.is(budget.bytesHeld(), counted);
  }
  buffer.push(chunk('x'.repeat(1_000)));
  buffer.push(chunk('x'.repeat(1_000)));
  t.deepEqual(await buffer.next(), chunk('x'.repeat(2_000)));
  t.is(budget.bytesHeld(), 2_000);
  void buffer.next();
  t.is(budget.bytesHeld(), 0);
});

test('a client that takes one piece and then nothing makes room as one that takes nothing', async (t) => {
  const { clock, open, ended } = openCounted(4 * mebibyte);
  for (let client = 0; client < 4; client++) {
    const buffer = open();
    for (let index = 0; index < 4; index++) buffer.push(piece(mebibyte / 4));
    await buffer.next();
    await buffer.next();
  }
  t.is(ended(), 0);
  await clock.advance(14_000);
  t.is(ended(), 3, 'until its account holds less than its part');
});
