import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import test from 'ava';
import { upstreamsExhausted } from '../../../shared/errors.ts';
import { createAnswerBudget } from '../../../shared/process/answer-budget.ts';
import { createPieceReaders, sendPieces } from '../../../workers/replies/send-pieces.ts';
import { createReplyFrames, createReplySender } from '../../../workers/replies/send-reply.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { openRedisDatabase, type RedisDatabase, startPrivateRedis } from '../../support/private-redis.ts';
import { openReplyStream, type ReplyStream } from '../../support/reply-stream.ts';

let given: RedisDatabase;

test.before(async () => {
  given = await openRedisDatabase();
});

test.after.always(() => given?.[Symbol.asyncDispose]());

const usage = { promptTokens: 3, completionTokens: 5, cachedTokens: 0, estimated: false };

async function open(redis = given.redis) {
  const stream = await openReplyStream(given.redis);
  return { stream, ...sender(stream.key, redis) };
}

const served = { backend: 'onprem-a', queueWaitMs: 7, firstTokenMs: null };

function sender(replyTo: string, redis = given.redis) {
  const gone: string[] = [];
  const reply = createReplySender({
    frames: createReplyFrames({ redis }),
    replyTo,
    requestId: 'r',
    run: 2,
    onGone: () => gone.push('gone'),
    served: () => served,
  });
  return { reply, gone };
}

async function said(stream: ReplyStream): Promise<string[]> {
  return (await stream.replies()).map(({ kind, data }) => (kind === 'chunk' ? `chunk ${data}` : kind));
}

test('an empty text is not sent', async (t) => {
  const { stream, reply } = await open();
  await reply.chunk('', 1);
  await reply.chunk('a', 1);
  await sleep(20);
  await reply.chunk('', 2);
  await reply.end({ usage });
  t.deepEqual(await said(stream), ['chunk a', 'end']);
});

test('sends everything in order, numbered without a gap, with its request and run', async (t) => {
  const { stream, reply, gone } = await open();
  reply.started('control', 7);
  for (const text of 'abcdefghij') {
    await reply.chunk(text, 1);
    await sleep(3);
  }
  await reply.end({ body: 'b', usage });
  const replies = await stream.replies();
  t.deepEqual(
    replies.map(({ sequence }) => sequence),
    Array.from(replies, (_, index) => index),
  );
  t.true(replies.every(({ request, run }) => request === 'r' && run === 2));
  t.like(replies[0], { kind: 'started', data: { control: 'control' } });
  t.like(replies[1], { kind: 'chunk', data: 'a' });
  t.is(replies.map(({ kind, data }) => (kind === 'chunk' ? data : '')).join(''), 'abcdefghij');
  t.deepEqual(replies.at(-1)?.data, { body: 'b', usage });
  t.deepEqual(gone, []);
});

test('a run that ends at once sends only its last reply, and a longer one first sends its control stream', async (t) => {
  for (const last of ['end', 'error'] as const) {
    const { stream, reply } = await open();
    reply.started('control', 7);
    await (last === 'end' ? reply.end({ body: 'b', usage }) : reply.error(upstreamsExhausted('guest', [])));
    await sleep(30);
    t.like(await stream.replies(), [{ kind: last, sequence: 0 }]);
  }
  const { stream, reply } = await open();
  reply.started('control', 7);
  await stream.reply(({ kind }) => kind === 'started');
  await reply.end({ body: 'b', usage });
  t.deepEqual(await said(stream), ['started', 'end']);
});

test('the backend and its times are sent once: with the first text, or else with the last reply', async (t) => {
  const known = async (stream: ReplyStream) =>
    (await stream.replies()).map(({ kind, served }) => (served === undefined ? kind : `${kind} of ${served.backend}`));
  const streamed = await open();
  streamed.reply.started('control', 7);
  for (const text of 'ab') {
    await streamed.reply.chunk(text, 1);
    await sleep(20);
  }
  await streamed.reply.end({ usage });
  t.deepEqual(await known(streamed.stream), ['started', 'chunk of onprem-a', 'chunk', 'end']);
  const whole = await open();
  await whole.reply.end({ body: 'b', usage });
  t.deepEqual(await known(whole.stream), ['end of onprem-a']);
  const failed = await open();
  await failed.reply.error(upstreamsExhausted('guest', ['onprem-a']));
  t.deepEqual(await known(failed.stream), ['error of onprem-a']);
});

test('the final events of a stream arrive together with its end, however large they are', async (t) => {
  for (const finalEvents of ['data: b\n\n', 'b'.repeat(200_000)]) {
    const { stream, reply } = await open();
    reply.started('control', 7);
    await reply.chunk('a', 5);
    await stream.reply(({ kind }) => kind === 'chunk');
    await reply.end({ finalEvents, usage });
    t.like(await stream.replies(), [
      { kind: 'started', sequence: 0 },
      { kind: 'chunk', data: 'a', sequence: 1 },
      { kind: 'chunk', data: finalEvents, tokens: 5, sequence: 2 },
      { kind: 'end', data: { usage }, sequence: 3 },
    ]);
    t.is(await given.redis.xlen(stream.key), 3, 'one opens the stream, one has the first text, and one the rest');
  }
});

test('a stream that has only final events sends its control stream and its backend with them', async (t) => {
  const { stream, reply } = await open();
  reply.started('control', 7);
  await reply.end({ finalEvents: 'a', usage });
  t.like(await stream.replies(), [{ kind: 'started' }, { kind: 'chunk', data: 'a', served }, { kind: 'end' }]);
  t.is(await given.redis.xlen(stream.key), 2, 'one opens the stream, and one has all replies');
});

test('text of one turn of the event loop is one reply, and is sent automatically', async (t) => {
  const { stream, reply } = await open();
  await Promise.all(Array.from('abcdef', (text, index) => reply.chunk(text, index + 1)));
  t.like(await stream.reply(({ kind }) => kind === 'chunk'), { data: 'abcdef', tokens: 6, sequence: 0 });
});

test('ends after all text, and sends nothing more', async (t) => {
  const { stream, reply } = await open();
  await Promise.all(Array.from('abc', (text) => reply.chunk(text, 1)));
  await reply.end({ usage });
  t.deepEqual(await said(stream), ['chunk abc', 'end']);
  await sleep(50);
  t.deepEqual(await said(stream), ['chunk abc', 'end']);
});

test('an error is sent after all text, with its fields', async (t) => {
  const { stream, reply } = await open();
  await Promise.all(Array.from('abc', (text) => reply.chunk(text, 1)));
  await reply.error(upstreamsExhausted('standard', ['a', 'b']));
  t.deepEqual(await said(stream), ['chunk abc', 'error']);
  t.like((await stream.replies()).at(-1)?.data, {
    code: 'UPSTREAMS_EXHAUSTED',
    fields: { tier: 'standard', attempted: ['a', 'b'] },
    retryAfterMs: 1_000,
  });
});

test('a large text is sent without waiting for more', async (t) => {
  const { stream, reply } = await open();
  const much = 'x'.repeat(65_536);
  await Promise.all([reply.chunk('a', 1), reply.chunk(much, 1), reply.chunk('b', 1), reply.chunk('c', 1)]);
  await reply.end({ usage });
  t.deepEqual(await said(stream), ['chunk a', `chunk ${much}`, 'chunk bc', 'end']);
});

test('reports once that the stream has no reader, and creates no stream', async (t) => {
  const { reply, gone } = sender('svc:replies:no-reader');
  reply.started('control', 7);
  await reply.chunk('a', 1);
  await reply.chunk('b', 1);
  await reply.end({ usage });
  await reply.error(upstreamsExhausted('standard', []));
  t.deepEqual(gone, ['gone']);
  t.is(await given.redis.exists('svc:replies:no-reader'), 0);
});

test('notices when the stream disappears later', async (t) => {
  const { stream, reply, gone } = await open();
  await reply.chunk('a', 1);
  await stream.reply(({ kind }) => kind === 'chunk');
  t.deepEqual(gone, []);
  await given.redis.del(stream.key);
  await reply.chunk('b', 1);
  await reply.end({ usage });
  t.deepEqual(gone, ['gone']);
});

test('accepts 256 KiB of unsent text, and waits before more until it is sent', async (t) => {
  await using other = await startPrivateRedis();
  const stream = await openReplyStream(other.redis);
  const { reply } = sender(stream.key, other.redis);
  await other.server.kill('SIGSTOP');
  const text = 'x'.repeat(65_536);
  const chunks = Array.from({ length: 5 }, () => reply.chunk(text, 1));
  t.deepEqual(
    chunks.map((waits) => waits !== undefined),
    [false, false, false, false, true],
  );
  let isSent = false;
  const last = chunks[4]?.then(() => {
    isSent = true;
  });
  await turn();
  t.false(isSent);
  await other.server.kill('SIGCONT');
  await last;
  await reply.end({ usage });
  t.deepEqual(await said(stream), [...Array(5).fill(`chunk ${text}`), 'end']);
});

test('a Redis that is out of memory accepts replies, in order and without a gap', async (t) => {
  await using other = await startPrivateRedis();
  const stream = await openReplyStream(other.redis);
  const { reply, gone } = sender(stream.key, other.redis);
  reply.started('control', 7);
  await reply.chunk('a', 1);
  await stream.reply(({ kind }) => kind === 'chunk');
  await other.redis.config('SET', 'maxmemory', '1');
  await t.throwsAsync(other.redis.set('anything', 'else'), { message: /OOM/ });
  await reply.chunk('b', 1);
  await reply.end({ usage });
  t.deepEqual(await said(stream), ['started', 'chunk a', 'chunk b', 'end']);
  t.deepEqual(
    (await stream.replies()).map(({ sequence }) => sequence),
    [0, 1, 2, 3],
  );

  await other.redis.del(stream.key);
  await reply.error(upstreamsExhausted('standard', []));
  t.deepEqual(gone, ['gone'], 'a missing reader is detected without memory, too');
});

test('a failing Redis is reported at the end, and nowhere else', async (t) => {
  const key = `not-a-stream-${process.pid}`;
  await given.redis.set(key, 'every append fails');
  const whole = sender(key);
  whole.reply.started('control', 7);
  await t.throwsAsync(whole.reply.end({ usage }), { message: /WRONGTYPE/ });

  const streamed = sender(key);
  streamed.reply.started('control', 7);
  await streamed.reply.chunk('a', 1);
  await streamed.reply.chunk('b', 1);
  await sleep(50); // by now, sending the text was tried and has failed: ava fails on an unhandled rejection
  await t.throwsAsync(streamed.reply.end({ usage }), { message: /WRONGTYPE/ });
  await t.throwsAsync(streamed.reply.error(upstreamsExhausted('standard', [])), { message: /WRONGTYPE/ });
  t.deepEqual(whole.gone.concat(streamed.gone), []);
});

test('a failed reply leaves a gap in the numbers, so that the rest is not taken for the complete answer', async (t) => {
  const stream = await openReplyStream(given.redis);
  const { reply } = sender(stream.key);
  await reply.chunk('a', 1);
  await stream.reply(({ kind }) => kind === 'chunk');
  await given.redis.multi().rename(stream.key, `${stream.key}-aside`).set(stream.key, 'not a stream').exec();
  await reply.chunk('b', 1);
  await sleep(50); // longer than text waits for more
  await given.redis.rename(`${stream.key}-aside`, stream.key);
  await reply.end({ usage });
  t.deepEqual(
    (await stream.replies()).map(({ kind, sequence }) => [kind, sequence]),
    [
      ['chunk', 0],
      ['end', 2],
    ],
  );
});

const piece = 262_144;
const ahead = 4 * piece;

/** A run with an answer of this size, whose client has read nothing yet. */
async function openLarge(bytes: number, { bytesMax = 100_663_296, clock = fakeClock() } = {}) {
  const stream = await openReplyStream(given.redis);
  const readers = createPieceReaders();
  const aborting = new AbortController();
  const budget = createAnswerBudget({ bytesMax, clock });
  const held = budget.hold('user:alice');
  held.readFrom({ pause() {}, resume() {} });
  held.add(bytes);
  held.arrived();
  const clients: (() => void)[] = [];
  const followReader = (onGone: () => void) => {
    clients.push(onGone);
    return () => {};
  };
  const reply = createReplySender({
    ...{ frames: createReplyFrames({ redis: given.redis }), replyTo: stream.key, requestId: 'r', run: 1 },
    ...{ onGone() {}, served: () => served, pieces: { readers, held, followReader, signal: aborting.signal } },
  });
  reply.started('control', 7);
  const pieces = async () => (await stream.replies()).flatMap((each) => (each.kind === 'piece' ? [each] : []));
  const last = () => stream.reply(({ kind }) => kind === 'end' || kind === 'error');
  return { leaves: () => clients.map((leave) => leave()), stream, reply, readers, aborting, budget, pieces, last };
}

async function untilPieces(pieces: () => Promise<unknown[]>, count: number): Promise<void> {
  while ((await pieces()).length < count) await turn();
}

test('a large body is sent in pieces, at most 1 MiB ahead of what its client has taken, and is the same', async (t) => {
  const body = '{"text":"é東京😀"}'.repeat(100_000);
  const bytes = Buffer.byteLength(body);
  const { stream, reply, readers, pieces, last } = await openLarge(bytes);
  const ended = reply.end({ body, usage });
  for (let taken = 0; taken + ahead < bytes; taken += piece) {
    await untilPieces(pieces, taken / piece + 4);
    await sleep(5);
    t.is((await pieces()).length, taken / piece + 4);
    readers.report({ request: 'r', bytes: taken + piece });
  }
  t.like(await last(), { kind: 'end', data: { usage }, served });
  await ended;
  const sent = await pieces();
  t.true(sent.every((each) => each.data.length <= piece && each.bytes === bytes));
  t.is(Buffer.from(sent.map(({ data }) => data).join(''), 'latin1').toString(), body);
  const replies = await stream.replies();
  t.deepEqual([replies[0]?.kind, replies.at(-1)?.kind], ['started', 'end']);
  t.deepEqual(
    replies.map(({ sequence }) => sequence),
    Array.from(replies, (_, index) => index),
  );
});

test('large bodies take turns: each turn of the event loop sends at most one piece of any', async (t) => {
  const sent: string[] = [];
  const sending = {
    ...{ readers: createPieceReaders(), held: { stall() {}, flow() {} }, followReader: () => () => {} },
    signal: new AbortController().signal,
  };
  const send = (request: string) =>
    sendPieces([Buffer.alloc(3 * piece)], { ...sending, request }, async () => void sent.push(request));
  const ended = Promise.all(['a', 'b'].map(send));
  for (let turns = 1; sent.length < 6; turns++) {
    await turn();
    t.true(sent.length <= turns);
  }
  t.is(sent.join(''), 'ababab');
  t.deepEqual(await ended, [true, true]);
});

test('a body up to 64 KiB is sent with its end, also one of bytes', async (t) => {
  const { stream, reply } = await openLarge(65_536);
  await reply.end({ body: [Buffer.from('a'.repeat(32_768)), Buffer.from('b'.repeat(32_768))], usage });
  t.like((await stream.replies()).at(-1), {
    kind: 'end',
    data: { body: 'a'.repeat(32_768) + 'b'.repeat(32_768) },
  });
});

for (const how of ['its run is stopped', 'its ingress is gone'])
  test(`a body ends with an error in place of the rest if ${how}`, async (t) => {
    const { reply, aborting, leaves, pieces, last } = await openLarge(2 * ahead);
    const ended = reply.end({ body: [Buffer.alloc(2 * ahead, 'x')], usage });
    await untilPieces(pieces, 4);
    if (how === 'its run is stopped') aborting.abort('cancelled');
    else leaves();
    await ended;
    t.is((await last()).kind, 'error');
    t.is((await pieces()).length, 4);
  });

test('a body that its client does not read makes room for others', async (t) => {
  const clock = fakeClock();
  const { reply, budget, pieces, last } = await openLarge(2 * ahead, { bytesMax: 3 * ahead, clock });
  const ended = reply.end({ body: [Buffer.alloc(2 * ahead, 'x')], usage });
  await untilPieces(pieces, 4);
  const other = budget.hold('user:bob');
  other.readFrom({ pause() {}, resume() {} });
  other.add(3 * ahead);
  await clock.advance(10_000);
  await ended;
  t.is((await last()).kind, 'error');
  t.is(budget.bytesHeld(), 3 * ahead, 'only that of the other is held');
  other.release();
});
