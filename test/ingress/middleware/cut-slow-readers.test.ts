import { EventEmitter, once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import Koa from 'koa';
import { cutSlowReaders } from '../../../ingress/middleware/cut-slow-readers.ts';
import type { AppContext, RequestState } from '../../../ingress/request-state.ts';
import { serveApp } from '../../support/serve-app.ts';

const mebibyte = 1_048_576;
/** Larger than the system buffers of both ends. */
const large = Buffer.alloc(32 * mebibyte, 'x');
const never = 600_000;
type Bounds = NonNullable<Parameters<typeof cutSlowReaders>[0]>;

async function start(t: ExecutionContext, bounds: Bounds, body: () => unknown = () => large, isShared = false) {
  const responses: ServerResponse[] = [];
  const app = new Koa<RequestState>();
  app.use(cutSlowReaders(bounds));
  app.use(async (ctx) => {
    responses.push(ctx.res);
    if (isShared) ctx.state.isBodyShared = true;
    ctx.body = body();
  });
  app.on('error', () => {});
  const { port, ...served } = await serveApp(app);
  t.teardown(() => served[Symbol.dispose]());
  /** The response on the side of the server, and the client's socket, of which nothing is read yet. */
  async function ask() {
    const socket = connect(port, '127.0.0.1');
    t.teardown(() => socket.destroy());
    socket.on('error', () => {});
    const count = responses.length;
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    while (responses.length === count) await sleep(2);
    const response = responses[count];
    if (response === undefined) throw new Error('no request has arrived');
    return { socket, response, closed: once(response, 'close') };
  }
  return ask;
}

/** A client that always reads something, so that it never counts as stopped. */
function readSlowly(socket: import('node:net').Socket, isOver: () => boolean): Promise<void> {
  const read = async () => {
    while (!isOver() && !socket.destroyed) {
      socket.read(262_144) ?? socket.read();
      await sleep(20);
    }
  };
  return read();
}

for (const [kind, body] of [
  ['a complete answer', () => large],
  ['a list', () => ({ data: Array.from({ length: 64 }, () => 'x'.repeat(mebibyte / 2)) })],
  [
    'a stream',
    () =>
      Readable.from(
        Array.from({ length: 512 }, () => large.subarray(0, 65_536)),
        { objectMode: false },
      ),
  ],
] as const) {
  test(`a client that reads an answer too slowly is disconnected: ${kind}`, async (t) => {
    const ask = await start(t, { graceMs: 300, bytesPerSecondMin: 1_000_000_000 }, body);
    const { socket, response, closed } = await ask();
    const reading = readSlowly(socket, () => response.closed);
    await closed;
    t.false(response.writableFinished);
    await reading;
  });
}

test('a client that reads within the time for the size gets the complete answer', async (t) => {
  const ask = await start(t, { graceMs: 1, bytesPerSecondMin: 500_000 });
  const { socket, response, closed } = await ask();
  socket.resume();
  await closed;
  t.true(response.writableFinished);
});

/** Text that no two answers share in memory. */
const largeText = () => 'x'.repeat(32 * mebibyte);

/** An answer whose client reads this many bytes between two checks: system buffers differ in size. */
function createAnswer(t: ExecutionContext, bytes: number, bytesPerLook = 0) {
  let left = bytes;
  const closed = Promise.withResolvers<void>();
  const socket = {
    destroyed: false,
    bytesWritten: bytes,
    _handle: {
      get writeQueueSize() {
        left -= bytesPerLook;
        return left;
      },
    },
    destroy() {
      socket.destroyed = true;
      closed.resolve();
    },
  };
  const ignored = { getHeader: () => undefined, setTimeout() {} };
  const response = { writableFinished: false, closed: false, socket, writableLength: bytes, ...ignored };
  const res = Object.assign(new EventEmitter(), response);
  t.teardown(() => res.emit('close'));
  const ctx = { req: { socket }, res, state: {} } as unknown as AppContext; // all that the stage uses
  return { ctx, socket, closed: closed.promise };
}

test('while unread answers are too large in total, clients that read nothing are disconnected, the largest answer first', async (t) => {
  const stage = cutSlowReaders({ graceMs: never, heldBytesMax: 66, ageMsMin: 0, lookEveryMs: 5 });
  const [reading, small, largest, other] = [
    createAnswer(t, 40, 1),
    createAnswer(t, 8),
    createAnswer(t, 32),
    createAnswer(t, 16),
  ];
  for (const { ctx } of [reading, small, largest, other]) await stage(ctx, async () => {});
  await largest.closed;
  const destroyed = () => [reading, small, other].map(({ socket }) => socket.destroyed);
  t.deepEqual(destroyed(), [false, false, false], 'the largest answer is being read, and continues');
  const another = createAnswer(t, 17);
  await stage(another.ctx, async () => {});
  await another.closed;
  t.deepEqual(destroyed(), [false, false, false], 'no more are disconnected than necessary');
});

test('the handle of a connection counts the bytes that its client has not read', async (t) => {
  const ask = await start(t, {});
  const { response } = await ask();
  await sleep(1);
  const { _handle: handle } = response.socket as unknown as { _handle: { writeQueueSize: number } }; // not in Node's types
  t.true(handle.writeQueueSize > 0 && handle.writeQueueSize < response.writableLength);
});

test('an answer that all requests share is not held for one of them', async (t) => {
  const ask = await start(t, { graceMs: never, heldBytesMax: 1, ageMsMin: 0, lookEveryMs: 5 }, () => large, true);
  const { socket, response, closed } = await ask();
  await sleep(100);
  t.false(response.closed);
  socket.resume();
  await closed;
  t.true(response.writableFinished);
});

test('answers queued behind an unread one count, too', async (t) => {
  const bounds = { graceMs: never, heldBytesMax: 80 * mebibyte, ageMsMin: 0, lookEveryMs: 5 };
  const ask = await start(t, bounds, largeText);
  const { socket, response, closed } = await ask();
  await sleep(100);
  t.false(response.closed);
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(2));
  await closed;
  t.false(response.writableFinished);
});

test('an answer that has just started is never disconnected', async (t) => {
  const ask = await start(t, { graceMs: never, heldBytesMax: 1, ageMsMin: never, lookEveryMs: 5 });
  const all = await Promise.all([1, 2, 3].map(() => ask()));
  for (const { socket } of all) socket.resume();
  await Promise.all(all.map(({ closed }) => closed));
  t.true(all.every(({ response }) => response.writableFinished));
});
