import test from 'ava';
import { createReplyBuffer, type ReplyEvent } from '../../../ingress/replies/reply-buffer.ts';
import { ApiError } from '../../../shared/errors.ts';
import { roomOfBuffer } from '../../support/answer-room.ts';
import { heapInUse } from '../../support/collect-garbage.ts';

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
