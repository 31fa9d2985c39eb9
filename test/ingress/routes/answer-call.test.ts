import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import OpenAI, { APIError } from 'openai';
import { ApiError } from '../../../shared/errors.ts';
import type { HeldClaim } from '../../../shared/jobs/idempotency.ts';
import { packError, type ReplyContent } from '../../../shared/jobs/replies.ts';
import { requestText, startChatRoute } from '../../support/chat-route.ts';
import { undisturbed } from '../../support/undisturbed.ts';

const usage = { promptTokens: 1, completionTokens: 2, cachedTokens: 0, estimated: false };
const started: ReplyContent = { kind: 'started', data: { control: 'svc:control:w1', queueMs: 5 } };
const chunk = (content: string) =>
  ({
    kind: 'chunk',
    data: `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content } }] })}\n\n`,
    tokens: 1,
  }) as const;
const end: ReplyContent = { kind: 'end', data: { usage } };
const exhausted = new ApiError('UPSTREAMS_EXHAUSTED', 'No server answered.', {
  fields: { tier: 'guest', attempted: [] },
});
const failure: ReplyContent = { kind: 'error', data: packError(exhausted) };
/** Longer than any test: these must not occur. */
const never = 600_000;

test('a stream that fails before its first event has an error status, and no stream', async (t) => {
  const route = await startChatRoute(t, { heldBackMs: never });
  const answer = route.post(true);
  route.say(await route.queued(), [started, failure]);
  const response = await answer;
  t.is(response.status, 503);
  t.is(response.headers.get('content-type'), 'application/json; charset=utf-8');
  t.is(response.headers.get('retry-after'), '1');
  t.like(await response.json(), { code: 'UPSTREAMS_EXHAUSTED', tier: 'guest' });
});

test('a stream sends nothing before its first event, and only its events after that', async (t) => {
  const route = await startChatRoute(t, { heldBackMs: never });
  const answer = route.post(true);
  const request = await route.queued();
  route.say(request, [started]);
  let isThere = false;
  void answer.then(() => {
    isThere = true;
  });
  await sleep(100);
  t.false(isThere, 'neither status nor headers');
  route.say(request, [chunk('a'), chunk('b'), end], 1);
  const response = await answer;
  t.is(response.status, 200);
  t.is(await response.text(), `${chunk('a').data}${chunk('b').data}data: [DONE]\n\n`);
});

const comment = ': waiting\n';
const silenceMs = 15_000;

/** Reads until this many comments have arrived; the rest of the response stays readable. */
async function readComments(response: Response, count: number) {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (reader === undefined) throw new Error('a response without a body');
  let text = '';
  while (text.split(comment).length <= count) text += (await reader.read()).value ?? '';
  return {
    text,
    async rest() {
      let rest = '';
      for (let part = await reader.read(); !part.done; part = await reader.read()) rest += part.value;
      return rest;
    },
  };
}

test('a stream that waits long is 200 with a comment, and one more after each 15 s of silence', async (t) => {
  const route = await startChatRoute(t, { heldBackMs: 20 });
  const response = await route.post(true);
  t.is(response.status, 200);
  t.is(response.headers.get('content-type'), 'text/event-stream; charset=utf-8');
  await route.clock.advance(2 * silenceMs);
  const { text, rest } = await readComments(response, 3);
  t.is(text, comment.repeat(3));
  const request = await route.queued();
  t.is(route.places(), 1, 'it still waits');
  route.say(request, [started, chunk('a'), end]);
  t.is(await rest(), `${chunk('a').data}data: [DONE]\n\n`);
  t.is(route.places(), 0);
});

test('a stream that pauses between its events gets a comment after each 15 s of silence, and not before', async (t) => {
  const route = await startChatRoute(t, { heldBackMs: never });
  const answer = route.post(true);
  const request = await route.queued();
  let sent = 0;
  const say = (content: ReplyContent) => route.say(request, [content], sent++);
  say(started);
  say(chunk('a'));
  const response = await answer;
  await route.clock.advance(silenceMs - 1);
  say(chunk('b'));
  await route.clock.advance(silenceMs - 1);
  say(chunk('c'));
  await route.clock.advance(3 * silenceMs);
  say(chunk('d'));
  say(end);
  const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((text) => chunk(text).data);
  t.is(await response.text(), `${a}${b}${c}${comment.repeat(3)}${d}data: [DONE]\n\n`);
  t.is(route.clock.pending(), 0, 'its timer has ended');
});

test('a stream that fails after comments ends with a frame with its error code, and no [DONE]', async (t) => {
  const route = await startChatRoute(t, { heldBackMs: 20 });
  const { text, rest } = await readComments(await route.post(true), 1);
  route.say(await route.queued(), [started, failure]);
  const error = { code: 'UPSTREAMS_EXHAUSTED', type: 'server_error', message: 'No server answered.', param: null };
  t.is((text + (await rest())).replaceAll(comment, ''), `data: ${JSON.stringify({ error })}\n\n`);
});

test('an official SDK ignores the comments of a stream, and reports its failure as an error', async (t) => {
  const route = await startChatRoute(t, { heldBackMs: 20 });
  const client = new OpenAI({ apiKey: 'none', baseURL: `http://127.0.0.1:${route.port}/v1`, maxRetries: 0 });
  const ask = () =>
    client.chat.completions.create({ model: 'small-chat', stream: true, messages: [{ role: 'user', content: 'Hi' }] });

  // It resolves with the headers: the first comment has been sent by then.
  const whole = await ask();
  const request = await route.queued();
  route.say(request, [started, chunk('a')]);
  await route.clock.advance(silenceMs);
  route.say(request, [chunk('b'), end], 2);
  const texts = (await Array.fromAsync(whole)).map(({ choices }) => choices[0]?.delta.content);
  t.is(texts.join(''), 'ab');

  const broken = await ask();
  route.say(await route.queued(2), [started, failure]);
  const error = await t.throwsAsync(Array.fromAsync(broken), { instanceOf: APIError });
  t.is(error?.code, 'UPSTREAMS_EXHAUSTED');
});

test('a client that disconnects between two comments cancels its job', async (t) => {
  const route = await startChatRoute(t, { heldBackMs: 20 });
  const leaving = new AbortController();
  const response = await route.post(true, leaving.signal);
  await route.clock.advance(silenceMs);
  await readComments(response, 2);
  const request = await route.queued();
  leaving.abort();
  while (route.cancelled.length === 0) await sleep(1);
  t.like(route.cancelled, [{ requestId: request, model: 'small-chat', control: undefined }]);
  t.is(route.places(), 0);
});

test('when its account is suspended a request ends with 403 or an error frame, and its job is cancelled', async (t) => {
  const route = await startChatRoute(t, { heldBackMs: never });
  const whole = route.post(false);
  await route.queued();
  const streamed = route.post(true);
  const request = await route.queued(2);
  route.say(request, [started, chunk('a')]);
  const stream = await streamed;
  t.is(route.followed(), 2);
  route.suspend();
  const refused = await whole;
  t.is(refused.status, 403);
  t.like(await refused.json(), { code: 'FORBIDDEN' });
  const text = await stream.text();
  t.true(text.startsWith(`${chunk('a').data}data: {"error":{"code":"FORBIDDEN"`), text);
  t.false(text.includes('[DONE]'));
  await until(() => route.followed() === 0 && route.cancelled.length === 2);
  t.pass();
});

test('an operator ends one request with 403 or an error frame, and its job is cancelled', async (t) => {
  const route = await startChatRoute(t, { heldBackMs: never });
  const whole = route.post(false);
  const waiting = await route.queued();
  const streamed = route.post(true);
  const streaming = await route.queued(2);
  route.say(streaming, [started, chunk('a')]);
  const stream = await streamed;
  t.is(route.endable(), 2);
  route.end(waiting);
  const refused = await whole;
  t.is(refused.status, 403);
  t.deepEqual(await refused.json(), { code: 'FORBIDDEN', error: 'An operator has ended this request.' });
  await until(() => route.endable() === 1 && route.cancelled.length === 1);
  route.end(streaming);
  const text = await stream.text();
  t.true(text.startsWith(`${chunk('a').data}data: {"error":{"code":"FORBIDDEN"`), text);
  t.false(text.includes('[DONE]'));
  await until(() => route.endable() === 0 && route.followed() === 0 && route.cancelled.length === 2);
  t.like(route.cancelled, [{ requestId: waiting }, { requestId: streaming, control: 'svc:control:w1' }]);
});

test('requests end with their key with 403 or an error frame, also without a client, and their jobs are cancelled', async (t) => {
  const error = 'The API key of this request was revoked, and its requests were ended.';
  const route = await startChatRoute(t, { heldBackMs: never });
  const whole = route.post(false);
  await route.queued();
  const streamed = route.post(true);
  const streaming = await route.queued(2);
  route.say(streaming, [started, chunk('a')]);
  const stream = await streamed;
  route.end('key_1');
  const refused = await whole;
  t.is(refused.status, 403);
  t.deepEqual(await refused.json(), { code: 'FORBIDDEN', error });
  t.true((await stream.text()).includes(`"message":"${error}"`));
  await until(() => route.endable() === 0 && route.followed() === 0 && route.cancelled.length === 2);

  const leaving = new AbortController();
  const kept = await startChatRoute(t, { claim });
  const answer = kept.post(false, leaving.signal);
  const request = await kept.queued();
  kept.say(request, [started]);
  leaving.abort();
  await t.throwsAsync(answer);
  await kept.untilClosed();
  kept.end('key_1');
  t.like(kept.cancelled, [{ requestId: request }]);
});

test('a request whose job could not be queued no longer counts as waiting', async (t) => {
  const add = () => Promise.reject(new ApiError('SERVICE_UNAVAILABLE', 'Redis is unavailable.'));
  const route = await startChatRoute(t, { add });
  t.is((await route.post(false)).status, 503);
  t.is(route.places(), 0);
});

const claim: HeldClaim = {
  ...{ idempotencyKey: 'order-17', bodyMarks: ['mark'], isStream: false },
  answerBytesMax: 1_048_576,
};

test('a request with an idempotency key whose job could not be queued is released, so that the next attempt runs', async (t) => {
  const add = () => Promise.reject(new ApiError('SERVICE_UNAVAILABLE', 'Redis is unavailable.'));
  const route = await startChatRoute(t, { add, claim });
  t.is((await route.post(false)).status, 503);
  t.deepEqual(route.released, ['req_1']);
  t.is(route.places(), 0);
});

test('a request with an idempotency key continues without its client, until its account is suspended', async (t) => {
  const leaving = new AbortController();
  const route = await startChatRoute(t, { claim });
  const answer = route.post(false, leaving.signal);
  const request = await route.queued();
  route.say(request, [started]);
  leaving.abort();
  await t.throwsAsync(answer);
  await route.untilClosed();
  t.deepEqual([route.cancelled, route.followed()], [[], 1]);
  route.suspend();
  t.like(route.cancelled, [{ requestId: request, control: 'svc:control:w1' }]);
});

test('an operator ends a request with an idempotency key also without its client', async (t) => {
  const leaving = new AbortController();
  const route = await startChatRoute(t, { claim });
  const answer = route.post(false, leaving.signal);
  const request = await route.queued();
  route.say(request, [started]);
  leaving.abort();
  await t.throwsAsync(answer);
  await route.untilClosed();
  t.deepEqual([route.cancelled, route.endable()], [[], 1]);
  route.end(request);
  t.like(route.cancelled, [{ requestId: request, control: 'svc:control:w1' }]);
});

test('a request with an idempotency key that ended without its client is no longer followed', async (t) => {
  const leaving = new AbortController();
  const route = await startChatRoute(t, { claim });
  const answer = route.post(false, leaving.signal);
  const request = await route.queued();
  leaving.abort();
  await t.throwsAsync(answer);
  await route.untilClosed();
  route.say(request, [started, { kind: 'end', data: { body: '{}', usage } }]);
  await until(() => route.followed() === 0);
  t.deepEqual([route.cancelled, route.released], [[], []]);
});

test('a request with an idempotency key for whose answer there is no room ends with its client', async (t) => {
  const leaving = new AbortController();
  const route = await startChatRoute(t, { claim: { ...claim, answerBytesMax: 0 } });
  const answer = route.post(false, leaving.signal);
  const request = await route.queued();
  route.say(request, [started]);
  leaving.abort();
  await t.throwsAsync(answer);
  await until(() => route.cancelled.length === 1);
  t.like(route.cancelled, [{ requestId: request }]);
  t.is(route.followed(), 0);
});

test('an answer that is not kept says so: a stream, a longer one, or one without room', async (t) => {
  const kept = async (held: HeldClaim | undefined, body: string, stream = false) => {
    const route = await startChatRoute(t, held && { claim: held });
    const answer = route.post(stream);
    const ending: ReplyContent = { kind: 'end', data: { ...(!stream && { body }), usage } };
    route.say(await route.queued(), stream ? [started, chunk('a'), ending] : [started, ending]);
    const response = await answer;
    if (!stream) t.is(await response.text(), body, 'it is delivered');
    return response.headers.get('idempotency-kept');
  };
  const held = { ...claim, answerBytesMax: 9 };
  t.is(await kept(held, '{"a":"é"}'), 'false', 'ten bytes in nine characters');
  t.is(await kept(held, '{"a":"e"}'), null);
  t.is(await kept({ ...claim, answerBytesMax: 0 }, '{}'), 'false');
  t.is(await kept({ ...claim, isStream: true, answerBytesMax: 0 }, '', true), 'false');
  t.is(await kept(undefined, '{}'), null, 'without a key there is nothing to say');
});

test('a request whose client left before it was queued is cancelled, and no longer followed', async (t) => {
  const leaving = new AbortController();
  const route = await startChatRoute(t, {
    async add() {
      leaving.abort();
      await route.untilClosed();
    },
  });
  await t.throwsAsync(route.post(false, leaving.signal));
  const request = await route.queued();
  await until(() => route.cancelled.length === 1);
  t.like(route.cancelled, [{ requestId: request }]);
  t.is(route.followed(), 0);
});

/** Larger than the system buffers for an answer that is not read. */
const largeBody = JSON.stringify({ text: 'x'.repeat(30_000_000) });
const whole: ReplyContent = { kind: 'end', data: { body: largeBody, usage } };

const rawRequest = `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${requestText(false).length}\r\n\r\n${requestText(false)}`;

/** A connection that has sent a request and reads nothing yet. */
async function ask(t: ExecutionContext, port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  socket.on('error', () => {});
  socket.pause();
  socket.write(rawRequest);
  return socket;
}

test('a client that reads nothing of a complete answer is disconnected', async (t) => {
  t.timeout(60_000);
  const route = await startChatRoute(t, { clientStuckMs: 300 });
  const socket = await ask(t, route.port);
  route.say(await route.queued(), [started, whole]);
  await route.untilClosed();
  t.true(socket.bytesRead < largeBody.length);
});

const clientStuckMs = 3_000;

test('a client that reads it slowly gets all of it, however long that takes', async (t) => {
  t.timeout(120_000);
  // A process that is held up for half of its limit, twice between two reads, disconnects any client.
  await undisturbed(clientStuckMs / 2, async () => {
    const route = await startChatRoute(t, { clientStuckMs });
    const socket = await ask(t, route.port);
    route.say(await route.queued(), [started, whole]);
    const startedAt = performance.now();
    const length = await readWithPauses(socket);
    if (length <= largeBody.length) throw new Error(`it got ${length} bytes`);
    if (performance.now() < startedAt + 2 * clientStuckMs) throw new Error('it read too fast');
  });
  t.pass();
});

const pauseAfterBytes = 1_000_000;
const pauseMs = 250;

/** Reads a chunk from time to time until the end of the answer or the connection; returns how many bytes it got. */
async function readWithPauses(socket: Socket): Promise<number> {
  let length = 0;
  let untilPause = pauseAfterBytes;
  const { promise: over, resolve } = Promise.withResolvers<void>();
  const take = (bytes: Buffer) => {
    length += bytes.length;
    untilPause -= bytes.length;
    if (bytes.toString('latin1').endsWith('"}')) return resolve();
    if (untilPause > 0) return;
    untilPause = pauseAfterBytes;
    socket.pause();
    setTimeout(() => socket.resume(), pauseMs);
  };
  socket.on('data', take).on('close', resolve).resume();
  await over;
  return length;
}

/** Until the time-out of ava. */
async function until(claim: () => boolean): Promise<void> {
  while (!claim()) await sleep(5);
}

const pieceBytes = 262_144;
/** The pieces of a body of this many, as a worker sends them. */
const piecesOf = (body: Buffer): ReplyContent[] =>
  Array.from({ length: Math.ceil(body.length / pieceBytes) }, (_, index) => ({
    kind: 'piece' as const,
    data: body.subarray(index * pieceBytes, (index + 1) * pieceBytes).toString('latin1'),
    bytes: body.length,
  }));

test('a body that comes in pieces is written as it was sent, with its length, and its worker gets to know what was taken', async (t) => {
  const route = await startChatRoute(t);
  const body = Buffer.from(JSON.stringify({ text: 'é東京😀'.repeat(150_000) }));
  const answer = route.post(false);
  const request = await route.queued();
  route.say(request, [started, ...piecesOf(body), end]);
  const response = await answer;
  t.is(response.status, 200);
  t.is(response.headers.get('content-length'), String(body.length));
  t.is(response.headers.get('content-type'), 'application/json; charset=utf-8');
  t.true(Buffer.from(await response.arrayBuffer()).equals(body));
  t.deepEqual(route.taken, [2 * pieceBytes, 4 * pieceBytes]);
  while (route.answers.bytesHeld() > 0) await sleep(1);
  t.deepEqual(route.cancelled, []);
});

test('a body that breaks off after its first piece ends its connection, so that it does not look complete', async (t) => {
  const route = await startChatRoute(t);
  const answer = route.post(false);
  const [first] = piecesOf(Buffer.alloc(2 * pieceBytes, ' '));
  route.say(await route.queued(), [started, ...(first === undefined ? [] : [first]), failure]);
  const response = await answer;
  t.is(response.status, 200);
  await t.throwsAsync(response.text());
  while (route.answers.bytesHeld() > 0) await sleep(1);
  t.pass();
});

test('while answers take all of their budget, the client that reads none of a large one is disconnected', async (t) => {
  const route = await startChatRoute(t, { answerBytesMax: 1_048_576 });
  const socket = connect(route.port, '127.0.0.1').pause();
  t.teardown(() => socket.destroy());
  const body = requestText(false);
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  const request = await route.queued();
  // More than the buffers of the system take.
  const pieces = piecesOf(Buffer.alloc(64 * pieceBytes, ' '));
  route.say(request, [started, ...pieces.slice(0, 60)]);
  const closed = route.untilClosed();
  while (route.cancelled.length === 0) await route.clock.advance(5_000);
  await closed;
  t.is(route.answers.bytesHeld(), 0);
  t.like(route.cancelled[0], { requestId: request, control: 'svc:control:w1' });
});
