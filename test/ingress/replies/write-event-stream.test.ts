import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { mock } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import Koa from 'koa';
import { createReplyBuffer, type ReplyBuffer } from '../../../ingress/replies/reply-buffer.ts';
import { writeEventStream } from '../../../ingress/replies/write-event-stream.ts';
import type { RequestState } from '../../../ingress/request-state.ts';
import { ApiError } from '../../../shared/errors.ts';
import type { Usage } from '../../../shared/replies.ts';

const usage: Usage = { promptTokens: 1, completionTokens: 1, cachedTokens: 0, estimated: false };
const event = (text: string) => `data: ${JSON.stringify({ text })}\n\n`;

type Subject = { port: number; buffer: ReplyBuffer; written: Promise<void> };

/** A server that answers its first request by what is put into the buffer; `written` is when that is over. */
async function start(t: ExecutionContext): Promise<Subject> {
  const buffer = createReplyBuffer();
  const written = Promise.withResolvers<void>();
  const app = new Koa<RequestState>();
  app.use(async (ctx) => {
    const reply = { next: () => buffer.next(), abandon: () => {} };
    await writeEventStream(ctx, reply, { heldBackMs: 10_000 });
    written.resolve();
  });
  app.on('error', () => {});
  const server = createServer(app.callback()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return { port: (server.address() as AddressInfo).port, buffer, written: written.promise }; // a TCP server's address
}

async function read({ port }: Subject): Promise<{ headers: Headers; text: string }> {
  const response = await fetch(`http://127.0.0.1:${port}/`);
  return { headers: response.headers, text: await response.text() };
}

test('writes each event as it stands, then [DONE] as the last thing', async (t) => {
  const subject = await start(t);
  const events = ['a', 'é', '👩‍👩‍👧‍👦'].map(event);
  for (const text of events) subject.buffer.push({ kind: 'chunk', text });
  subject.buffer.push({ kind: 'end', body: undefined, usage });
  const { headers, text } = await read(subject);
  t.is(text, `${events.join('')}data: [DONE]\n\n`);
  t.is(headers.get('content-type'), 'text/event-stream; charset=utf-8');
  t.is(headers.get('cache-control'), 'no-cache');
  t.is(headers.get('x-accel-buffering'), 'no');
});

test('a reply that breaks off ends by an error frame and no [DONE]', async (t) => {
  const subject = await start(t);
  subject.buffer.push({ kind: 'chunk', text: event('a') });
  subject.buffer.fail(new ApiError('UPSTREAM_INTERRUPTED', 'It broke off.', { cause: new Error('10.0.0.1') }));
  const frame = {
    error: { code: 'UPSTREAM_INTERRUPTED', type: 'server_error', message: 'It broke off.', param: null },
  };
  t.is((await read(subject)).text, `${event('a')}data: ${JSON.stringify(frame)}\n\n`);
});

test('a client that reads slowly gets everything in the end', async (t) => {
  const subject = await start(t);
  const text = event('x'.repeat(200_000));
  const socket = connect(subject.port, '127.0.0.1');
  socket.write('GET / HTTP/1.0\r\n\r\n');
  for (let index = 0; index < 5; index++) subject.buffer.push({ kind: 'chunk', text });
  subject.buffer.push({ kind: 'end', body: undefined, usage });
  let length = 0;
  for await (const bytes of socket) {
    length += (bytes as Buffer).length; // a socket without an encoding gives out buffers
    await sleep(1);
  }
  t.true(length > 5 * text.length);
  await subject.written;
});

test('writing ends when the client leaves', async (t) => {
  const subject = await start(t);
  const socket = connect(subject.port, '127.0.0.1');
  socket.pause();
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  const text = event('x'.repeat(1_000_000));
  for (let index = 0; index < 30; index++) subject.buffer.push({ kind: 'chunk', text });
  await sleep(100);
  socket.resetAndDestroy();
  await t.notThrowsAsync(subject.written);
});

test.serial('a client that reads nothing for half a minute is cut', async (t) => {
  const subject = await start(t);
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const socket = connect(subject.port, '127.0.0.1');
  socket.on('error', () => {});
  socket.pause();
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  const text = event('x'.repeat(1_000_000));
  for (let index = 0; index < 30; index++) subject.buffer.push({ kind: 'chunk', text });
  let over = false;
  void subject.written.then(() => {
    over = true;
  });
  // The system takes what its own buffers hold, and no more; from then on time is all that passes.
  while (!over) {
    await new Promise((resolve) => setImmediate(resolve));
    mock.timers.tick(1_000);
  }
  t.true(over);
});
