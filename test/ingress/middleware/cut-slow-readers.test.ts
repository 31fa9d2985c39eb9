import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import Koa from 'koa';
import { cutSlowReaders } from '../../../ingress/middleware/cut-slow-readers.ts';
import type { RequestState } from '../../../ingress/request-state.ts';

const mebibyte = 1_048_576;
/** More than the buffers of both systems take. */
const large = Buffer.alloc(32 * mebibyte, 'x');
const never = 600_000;
type Bounds = NonNullable<Parameters<typeof cutSlowReaders>[0]>;

async function start(t: ExecutionContext, bounds: Bounds, body: () => unknown = () => large) {
  const responses: ServerResponse[] = [];
  const app = new Koa<RequestState>();
  app.use(cutSlowReaders(bounds));
  app.use(async (ctx) => {
    responses.push(ctx.res);
    ctx.body = body();
  });
  app.on('error', () => {});
  const server = app.listen(0, '127.0.0.1');
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a TCP server's address
  /** The response on the side of the server, and the client's socket, of which nothing is read yet. */
  async function ask() {
    const socket = connect(port, '127.0.0.1');
    t.teardown(() => socket.destroy());
    socket.on('error', () => {});
    const count = responses.length;
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    while (responses.length === count) await sleep(2);
    const response = responses[count];
    if (response === undefined) throw new Error('no request has come');
    return { socket, response, closed: once(response, 'close') };
  }
  return ask;
}

/** A client that always takes something, so that it is never one that has stopped. */
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
  ['a whole one', () => large],
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
  test(`a client that takes an answer too slowly is disconnected: ${kind}`, async (t) => {
    const ask = await start(t, { graceMs: 300, bytesPerSecondMin: 1_000_000_000 }, body);
    const { socket, response, closed } = await ask();
    const reading = readSlowly(socket, () => response.closed);
    await closed;
    t.false(response.writableFinished);
    await reading;
  });
}

test('a client that takes it in the time for its size gets all of it', async (t) => {
  const ask = await start(t, { graceMs: 1, bytesPerSecondMin: 500_000 });
  const { socket, response, closed } = await ask();
  socket.resume();
  await closed;
  t.true(response.writableFinished);
});

test('while answers that are not taken are too large together, those go that have waited longest', async (t) => {
  const ask = await start(t, { graceMs: never, heldBytesMax: 80 * mebibyte, sparedMs: 0 });
  const first = await ask();
  const second = await ask();
  await sleep(5);
  const third = await ask();
  await first.closed;
  t.false(first.response.writableFinished);
  t.false(second.response.closed);
  t.false(third.response.closed);
  for (const one of [second, third]) {
    one.socket.resume();
    await one.closed;
    t.true(one.response.writableFinished);
  }
  const fourth = await ask();
  t.false(fourth.response.closed, 'what was taken is held no more');
});

test('an answer that has just begun is spared, whatever else is held', async (t) => {
  const ask = await start(t, { graceMs: never, heldBytesMax: 1, sparedMs: never });
  const all = await Promise.all([1, 2, 3].map(() => ask()));
  for (const { socket } of all) socket.resume();
  await Promise.all(all.map(({ closed }) => closed));
  t.true(all.every(({ response }) => response.writableFinished));
});
