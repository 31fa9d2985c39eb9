import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import test from 'ava';
import { inTurn } from '../../../shared/concurrency/in-turn.ts';
import { createAnswerBudget } from '../../../shared/process/answer-budget.ts';
import { createAnswerRoom } from '../../../workers/backend-client/call-backend.ts';
import { wholeText } from '../../../workers/backend-client/read-body.ts';
import { answerFor, type Fault, startModelServer } from '../../stack/model-server.ts';
import { roomFor } from '../../support/answer-room.ts';
import { messages, openBackend, readThrough } from '../../support/backend-calls.ts';
import { streamEvents } from '../../support/chat.ts';
import { rawAnswer, startRawBackend } from '../../support/raw-backend.ts';

const expected = answerFor(messages);
/** Short enough to wait for, in tests of a slow backend. */
const short = { firstTokenMs: 250, idleMs: 250 };

function textOf(stream: string): string {
  return streamEvents(stream)
    .map((event) => (event === '[DONE]' ? '' : (event.choices?.[0]?.delta?.content ?? '')))
    .join('');
}

test('a whole answer is what the backend wrote, and a streamed one is its events up to [DONE]', async (t) => {
  await using server = await startModelServer({ name: 'a' });
  await using backend = openBackend(server.url);
  t.is(JSON.parse(await backend.whole()).choices[0].message.content, expected);
  const { text, error } = await readThrough(backend.stream());
  t.is(error, undefined);
  t.is(textOf(text), expected);
});

test('sends the key of the backend as its bearer token', async (t) => {
  await using server = await startModelServer({ name: 'a', apiKey: 'k' });
  await using backend = openBackend(server.url);
  const call = backend.call(false, AbortSignal.timeout(30_000));
  t.true((await backend.callBackend.whole({ ...call, apiKey: 'k' }, wholeText())).includes('choices'));
  await t.throwsAsync(backend.callBackend.whole(call, wholeText()), { message: 'the backend answered 401' });
});

/** How a call with each fault ends, for a whole answer and before the first token of a stream. */
const table: { fault: Fault; whole: string; stream?: string; timeouts?: typeof short }[] = [
  { fault: { resetBeforeHeaders: true }, whole: 'connection' },
  { fault: { garbage: 'http' }, whole: 'unreadable' },
  { fault: { status: 500 }, whole: 'status' },
  { fault: { status: 429, retryAfterSeconds: 60 }, whole: 'status' },
  { fault: { status: 404 }, whole: 'status' },
  { fault: { status: 400, errorMessage: 'no' }, whole: 'status' },
  { fault: { invalidUtf8: true }, whole: 'unreadable' },
  { fault: { cutAfterChunks: 0 }, whole: 'connection' },
];

for (const { fault, whole, stream = whole } of table) {
  test(`${JSON.stringify(fault)} is ${whole}, whole and streamed`, async (t) => {
    await using server = await startModelServer({ name: 'a' });
    await using backend = openBackend(server.url);
    server.fail(fault);
    t.is(await faultOf(backend.whole()), whole);
    const { text, error } = await readThrough(backend.stream());
    t.is(text, '');
    t.is((error as { fault?: string }).fault, stream);
  });
}

async function faultOf(call: Promise<string>): Promise<string> {
  try {
    return await call;
  } catch (error) {
    return (error as { fault?: string }).fault ?? String(error);
  }
}

test('a body that is neither an event stream nor JSON is unreadable, and its call ends', async (t) => {
  await using server = await startModelServer({ name: 'a' });
  await using backend = openBackend(server.url);
  server.fail({ garbage: 'html' });
  const { error } = await readThrough(backend.stream());
  t.like(error, { fault: 'unreadable', message: 'the answer is neither an event stream nor JSON' });
});

test('the call of a silent backend ends: a stream at first_token_ms, a whole answer when its signal is aborted', async (t) => {
  await using server = await startModelServer({ name: 'a' });
  await using backend = openBackend(server.url, short);
  server.fail({ hang: true });
  const { error } = await readThrough(backend.stream());
  t.like(error, { fault: 'first_token_timeout', message: 'no token within 250 ms' });
  t.is((await server.waitForCall(({ stream, state }) => stream && state !== 'running')).state, 'aborted');

  const deadline = new AbortController();
  const whole = faultOf(backend.whole(deadline.signal));
  const { id } = await server.waitForCall(({ stream }) => !stream);
  t.is(await Promise.race([whole, elapsed(short.firstTokenMs * 3)]), 'still waiting', 'no timeout ends it');
  deadline.abort('deadline');
  t.is(await whole, 'connection');
  t.is((await server.waitForCall((call) => call.id === id && call.state !== 'running')).state, 'aborted');
});

async function elapsed(ms: number): Promise<string> {
  await new Promise((resolve) => setTimeout(resolve, ms));
  return 'still waiting';
}

test('slow headers are awaited as long as the first token may take', async (t) => {
  await using server = await startModelServer({ name: 'a' });
  server.fail({ slowHeadersMs: 400 });
  await using patient = openBackend(server.url);
  t.is(JSON.parse(await patient.whole()).choices[0].message.content, expected);
  t.is(textOf((await readThrough(patient.stream())).text), expected);
  await using impatient = openBackend(server.url, { firstTokenMs: 100 });
  t.like((await readThrough(impatient.stream())).error, { fault: 'first_token_timeout' });
});

test('a silent call continues to wait while its backend gives tokens to others', async (t) => {
  await using server = await startModelServer({ name: 'a' });
  server.fail({ hang: true });
  await using backend = openBackend(server.url, short);
  const asked: number[] = [];
  const call = {
    ...backend.call(true, AbortSignal.timeout(30_000)),
    isBusy: (withinMs: number) => asked.push(withinMs) < 3,
  };
  const reader = { isWhole: false, begun: () => false, hasText: () => false, take: () => false, takeWhole() {} };
  await t.throwsAsync(backend.callBackend.stream(call, reader), { message: 'no token within 250 ms' });
  t.deepEqual(asked, [250, 250, 250]);
});

test('only events with text are tokens: pings, comments and events without text are none', async (t) => {
  const parts = [
    'data: {"a":1}',
    ': ping',
    'data: {"text":"x"}',
    ': ping',
    'event: ping',
    'data: {"text":"y"}\n\ndata: {}',
  ];
  const writes = [...parts, 'data: [DONE]'].map((part) => `${part}\n\n`);
  const write = async (socket: Socket) => {
    socket.write(rawAnswer('', { ended: false }));
    for (const part of writes) {
      socket.write(`${part.length.toString(16)}\r\n${part}\r\n`);
      await elapsed(5);
    }
  };
  await using server = await startRawBackend(write);
  await using backend = openBackend(server.url);
  const tokens: string[] = [];
  let latest = '';
  const reader = {
    ...{ isWhole: false, begun: () => latest !== '', hasText: () => latest.includes('text'), takeWhole() {} },
    take(data: string) {
      latest = data;
      return false;
    },
  };
  const call = { ...backend.call(true, AbortSignal.timeout(30_000)), onToken: () => tokens.push(latest) };
  t.is(await backend.callBackend.stream(call, reader), 'done');
  t.deepEqual(tokens, ['{"text":"x"}', '{"text":"y"}']);
});

test('blank lines before the first event extend the wait for it', async (t) => {
  const write = async (socket: Socket) => {
    socket.write(rawAnswer('', { ended: false }));
    for (let line = 0; line < 6; line++) {
      await elapsed(300);
      socket.write('1\r\n\n\r\n');
    }
    const event = 'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';
    socket.write(`${event.length.toString(16)}\r\n${event}\r\n`);
  };
  await using server = await startRawBackend(write);
  await using backend = openBackend(server.url, { firstTokenMs: 1_000 });
  const { text, error } = await readThrough(backend.stream());
  t.is(error, undefined);
  t.is(textOf(text), 'Hi');
});

test('the version that a client names wins over a fixed header of the backend', async (t) => {
  const got: unknown[] = [];
  const server = createServer(({ headers }, response) => {
    got.push([headers['anthropic-version'], headers['x-team']]);
    response.end('{}');
  }).listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a TCP listener has one
  await using backend = openBackend(`http://127.0.0.1:${port}/v1`);
  const call = backend.call(false, AbortSignal.timeout(30_000));
  const fixed = { ...call.backend, headers: { 'anthropic-version': '2023-01-01', 'x-team': 'a' } };
  for (const headers of [{}, { 'anthropic-version': '2023-06-01' }])
    await backend.callBackend.whole({ ...call, backend: fixed, headers }, wholeText());
  t.deepEqual(got, [
    ['2023-01-01', 'a'],
    ['2023-06-01', 'a'],
  ]);
});

test('a role alone is not the first token', async (t) => {
  await using server = await startModelServer({ name: 'a' });
  server.fail({ stallAfterChunks: 0 });
  await using backend = openBackend(server.url, { firstTokenMs: 250 });
  const { text, error } = await readThrough(backend.stream());
  t.is(text, '');
  t.like(error, { fault: 'first_token_timeout' });
});

test('a stream that falls silent ends at idle_ms, with what came before', async (t) => {
  await using server = await startModelServer({ name: 'a' });
  server.fail({ stallAfterChunks: 3 });
  await using backend = openBackend(server.url, { idleMs: 250 });
  const { text, error } = await readThrough(backend.stream());
  t.is(textOf(text), expected.slice(0, textOf(text).length));
  t.is(streamEvents(text).length, 4);
  t.like(error, { fault: 'idle_timeout', message: 'nothing for 250 ms' });
  t.is((await server.waitForCall(({ state }) => state !== 'running')).state, 'aborted');
});

test('a slow stream is read to its end as long as no pause is too long', async (t) => {
  await using server = await startModelServer({ name: 'a' });
  server.fail({ chunkMs: 20 });
  await using backend = openBackend(server.url, { firstTokenMs: 5_000, idleMs: 5_000 });
  t.is(textOf((await readThrough(backend.stream())).text), expected);
});

/** How a stream that has begun ends: by which kind of failure, or without one. */
const begun: [Fault, string | undefined][] = [
  [{ cutAfterChunks: 3 }, 'connection'],
  [{ endAfterChunks: 3 }, undefined],
];

for (const [fault, failure] of begun) {
  test(`${JSON.stringify(fault)} ends a stream by ${failure ?? 'its end'}, after what came before`, async (t) => {
    await using server = await startModelServer({ name: 'a' });
    server.fail(fault);
    await using backend = openBackend(server.url);
    const { text, error } = await readThrough(backend.stream());
    t.is(streamEvents(text).length, 4);
    t.is((error as { fault?: string } | undefined)?.fault, failure);
  });
}

test('events that are not JSON are unreadable', async (t) => {
  await using server = await startModelServer({ name: 'a' });
  server.fail({ badEvents: true });
  await using backend = openBackend(server.url);
  t.like((await readThrough(backend.stream())).error, { fault: 'unreadable' });
});

test('a whole answer without end is aborted at its limit', async (t) => {
  await using server = await startModelServer({ name: 'a' });
  server.fail({ endless: true });
  await using backend = openBackend(server.url);
  const call = { ...backend.call(false, AbortSignal.timeout(30_000)), room: roomFor(4_194_304) };
  const error = await t.throwsAsync(backend.callBackend.whole(call, wholeText()));
  t.like(error, { fault: 'too_large', message: 'the answer is larger than 4194304 bytes' });
  t.is((await server.waitForCall(({ state }) => state !== 'running')).state, 'aborted');
});

test('an answer without room is not read, that time is no silence of its backend, and it is read when there is room', async (t) => {
  const body = 'x'.repeat(1_048_576);
  await using backendOfMany = await startRawBackend((socket) =>
    socket.write(rawAnswer(body, { type: 'application/json' })),
  );
  await using silent = await startRawBackend((socket) => socket.write(rawAnswer('', { ended: false })));
  const [many, none] = [openBackend(backendOfMany.url, { idleMs: 100 }), openBackend(silent.url, { idleMs: 100 })];
  const budget = createAnswerBudget({ bytesMax: 131_072 });
  const other = budget.hold('user:bob');
  other.readFrom({ pause() {}, resume() {} });
  other.add(131_072);
  const room = createAnswerRoom({ held: budget.hold('user:alice'), bytesMax: 4_194_304 });
  const whole = many.callBackend.whole({ ...many.call(false, AbortSignal.timeout(30_000)), room }, wholeText());
  while (budget.paused() === 0) await new Promise(setImmediate);
  t.like(await t.throwsAsync(none.whole()), { fault: 'idle_timeout' }, 'as much time is over');
  t.true(budget.bytesHeld() < 131_072 + 2 * 65_536 + 1_024, `${budget.bytesHeld()} bytes are held`);
  other.release();
  t.is(await whole, body);
  t.is(budget.paused(), 0);
  await Promise.all([many.agent.destroy(), none.agent.destroy()]);
});

test('the time in which an answer waits for its turn is no silence of its backend', async (t) => {
  const body = 'x'.repeat(262_144);
  await using large = await startRawBackend((socket) => socket.write(rawAnswer(body, { type: 'application/json' })));
  await using backend = openBackend(large.url, { idleMs: 100 });
  const others = new AbortController();
  const takeTurn = () => {
    const until = performance.now() + 50;
    while (performance.now() < until);
    if (!others.signal.aborted) inTurn(takeTurn);
  };
  for (let other = 0; other < 4; other++) inTurn(takeTurn);
  const room = createAnswerRoom({
    held: createAnswerBudget({ bytesMax: 4_194_304 }).hold('user:alice'),
    bytesMax: 4_194_304,
  });
  const whole = backend.callBackend.whole({ ...backend.call(false, AbortSignal.timeout(30_000)), room }, wholeText());
  t.is(await whole.finally(() => others.abort()), body);
});

test('an answer is read again when bytes of another answer have made the room', async (t) => {
  const body = 'x'.repeat(1_048_576);
  await using large = await startRawBackend((socket) => socket.write(rawAnswer(body, { type: 'application/json' })));
  await using small = await startRawBackend((socket) => socket.write(rawAnswer('{}', { type: 'application/json' })));
  await using many = openBackend(large.url);
  await using few = openBackend(small.url);
  const budget = createAnswerBudget({ bytesMax: 131_072 });
  const other = budget.hold('user:bob');
  other.readFrom({ pause() {}, resume() {} });
  other.add(131_072);
  const room = createAnswerRoom({ held: budget.hold('user:alice'), bytesMax: 4_194_304 });
  const whole = many.callBackend.whole({ ...many.call(false, AbortSignal.timeout(30_000)), room }, wholeText());
  while (budget.paused() === 0) await new Promise(setImmediate);
  // While undici parses bytes of one connection it cannot resume another.
  const text = wholeText();
  const makesRoom = {
    end: text.end,
    take(bytes: Buffer) {
      other.release();
      text.take(bytes);
    },
  };
  t.is(await few.callBackend.whole(few.call(false, AbortSignal.timeout(30_000)), makesRoom), '{}');
  t.is(await whole, body);
});

test('the call of a stream ends when its reader wants no more', async (t) => {
  await using server = await startModelServer({ name: 'a' });
  server.fail({ endless: true, chunkMs: 2 });
  await using backend = openBackend(server.url);
  let events = 0;
  await backend.stream()((ready) => ready !== '' && ++events === 5);
  t.is(events, 5);
  t.is((await server.waitForCall(({ state }) => state !== 'running')).state, 'aborted');
});
