import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { mock } from 'node:test';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import Koa from 'koa';
import { createReplyBuffer, type ReplyBuffer } from '../../../ingress/replies/reply-buffer.ts';
import { writeEventStream } from '../../../ingress/replies/write-answer.ts';
import type { RequestState } from '../../../ingress/request-state.ts';
import { doneEnding } from '../../../shared/endpoints/chat-stream/choices-answers.ts';
import { ApiError } from '../../../shared/errors.ts';
import type { TokenUsage } from '../../../shared/jobs/replies.ts';
import { roomOfBuffer } from '../../support/answer-room.ts';
import { serveApp } from '../../support/serve-app.ts';

const usage: TokenUsage = { promptTokens: 1, completionTokens: 1, cachedTokens: 0, estimated: false };
const event = (text: string) => `data: ${JSON.stringify({ text })}\n\n`;

type Subject = {
  port: number;
  buffer: ReplyBuffer;
  response: Promise<ServerResponse>;
  written: Promise<TokenUsage | undefined>;
};

/** A server that answers its first request from the buffer. `written` is the result of the writer. */
async function start(t: ExecutionContext): Promise<Subject> {
  const buffer = createReplyBuffer(roomOfBuffer());
  const written = Promise.withResolvers<TokenUsage | undefined>();
  const response = Promise.withResolvers<ServerResponse>();
  const app = new Koa<RequestState>();
  app.use(async (ctx) => {
    const reply = { next: buffer.next, writeTextWith: buffer.writeTextWith, abandon: () => {} };
    response.resolve(ctx.res);
    written.resolve(writeEventStream(ctx, reply, { ending: doneEnding, heldBackMs: 10_000 }));
    await written.promise;
  });
  app.on('error', () => {});
  const { port, ...served } = await serveApp(app);
  t.teardown(() => served[Symbol.dispose]());
  return { port, buffer, response: response.promise, written: written.promise };
}

/** Larger than all buffers between the writer and a client that does not read. */
const moreThanFits = event('x'.repeat(30_000_000));

/** A client that does not read while its response waits. Timers move only when the test moves them. */
async function startWithStuckClient(t: ExecutionContext) {
  t.timeout(60_000);
  const subject = await start(t);
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const socket = connect(subject.port, '127.0.0.1');
  socket.on('error', () => {});
  socket.pause();
  socket.write('GET / HTTP/1.0\r\n\r\n');
  const response = await subject.response;
  await turn(); // the writer waits for an event, so it takes one of any size
  subject.buffer.push({ kind: 'chunk', text: moreThanFits });
  while (!response.writableNeedDrain) await turn();
  return { ...subject, socket, response };
}

async function read({ port }: Subject): Promise<{ headers: Headers; text: string }> {
  const response = await fetch(`http://127.0.0.1:${port}/`);
  return { headers: response.headers, text: await response.text() };
}

test('writes each event unchanged, then [DONE] at the end', async (t) => {
  const subject = await start(t);
  const events = ['a', 'é', '👩‍👩‍👧‍👦'].map(event);
  for (const text of events) subject.buffer.push({ kind: 'chunk', text });
  subject.buffer.push({ kind: 'end', body: undefined, usage });
  const { headers, text } = await read(subject);
  t.is(text, `${events.join('')}data: [DONE]\n\n`);
  t.is(headers.get('content-type'), 'text/event-stream; charset=utf-8');
  t.is(headers.get('cache-control'), 'no-cache, no-transform');
  t.is(headers.get('x-accel-buffering'), 'no');
});

test('an interrupted reply ends with an error frame and no [DONE]', async (t) => {
  const subject = await start(t);
  subject.buffer.push({ kind: 'chunk', text: event('a') });
  subject.buffer.fail(new ApiError('UPSTREAM_INTERRUPTED', 'It broke off.', { cause: new Error('10.0.0.1') }));
  const frame = {
    error: { code: 'UPSTREAM_INTERRUPTED', type: 'server_error', message: 'It broke off.', param: null },
  };
  t.is((await read(subject)).text, `${event('a')}data: ${JSON.stringify(frame)}\n\n`);
});

test('a client that reads slowly gets everything', async (t) => {
  const subject = await start(t);
  const text = event('x'.repeat(200_000));
  const socket = connect(subject.port, '127.0.0.1');
  socket.write('GET / HTTP/1.0\r\n\r\n');
  for (let index = 0; index < 5; index++) subject.buffer.push({ kind: 'chunk', text });
  subject.buffer.push({ kind: 'end', body: undefined, usage });
  let length = 0;
  for await (const bytes of socket) {
    length += (bytes as Buffer).length; // a socket without an encoding emits buffers
    await sleep(1);
  }
  t.true(length > 5 * text.length);
  await subject.written;
});

test('short texts are written at once until the connection is full, and arrive in order', async (t) => {
  const { port, buffer, response: answered, written } = await start(t);
  const socket = connect(port, '127.0.0.1').pause();
  socket.write('GET / HTTP/1.0\r\n\r\n');
  const response = await answered;
  const sent: string[] = [];
  const send = async () => {
    const text = event(`${sent.length} ${'x'.repeat(15_000)}`);
    t.true(buffer.push({ kind: 'chunk', text }));
    sent.push(text);
    await turn();
  };
  await send();
  const { bytesWritten = 0 } = response.socket ?? {};
  const second = send();
  t.true((response.socket?.bytesWritten ?? 0) >= bytesWritten + 15_000, 'in the same turn');
  await second;
  while (!response.socket?.writableNeedDrain) await send();
  for (let more = 0; more < 10; more++) await send();
  buffer.push({ kind: 'end', body: undefined, usage });
  let received = '';
  for await (const bytes of socket.setEncoding('utf8')) received += String(bytes);
  t.is(received.slice(received.indexOf('\r\n\r\n') + 4), `${sent.join('')}data: [DONE]\n\n`);
  t.deepEqual(await written, usage);
});

test.serial('a client that disconnects ends the writing immediately, without usage', async (t) => {
  const { socket, written } = await startWithStuckClient(t);
  socket.resetAndDestroy();
  t.is(await written, undefined);
});

test.serial('a client that stops reading is disconnected after 30 s, and not before', async (t) => {
  const { response, written } = await startWithStuckClient(t);
  mock.timers.tick(29_999);
  await turn();
  t.false(response.destroyed);
  mock.timers.tick(1);
  t.true(response.destroyed);
  t.is(await written, undefined);
});

test.serial(
  'a client that was slow for a moment is not disconnected later, while it has nothing to read',
  async (t) => {
    const { socket, buffer, response, written } = await startWithStuckClient(t);
    mock.timers.tick(29_999);
    let length = 0;
    socket.on('data', (bytes: Buffer) => {
      length += bytes.length;
    });
    socket.resume();
    const closed = once(socket, 'close');
    await once(response, 'drain');
    await turn();
    mock.timers.tick(60_000);
    t.false(response.destroyed);
    buffer.push({ kind: 'end', body: undefined, usage });
    t.deepEqual(await written, usage);
    await closed;
    t.true(length > moreThanFits.length, 'all of it arrives, and [DONE]');
  },
);
