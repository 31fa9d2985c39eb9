import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { type ConnectionBounds, listen } from '../../../ingress/listener/listener.ts';
import { unboundedConnections } from '../../support/unbounded-connections.ts';

/** A listener whose requests stay in progress until the test answers them. */
async function start(t: ExecutionContext, bounds: Partial<ConnectionBounds> = {}, keepAliveMs = 65_000) {
  const inProgress: { url: string; answer: () => void; socket: Socket }[] = [];
  let refused = 0;
  function onRequest(request: IncomingMessage, response: ServerResponse): void {
    const one = {
      url: request.url ?? '',
      socket: request.socket,
      answer() {
        inProgress.splice(inProgress.indexOf(one), 1);
        response.end(`<${request.url}>`);
      },
    };
    inProgress.push(one);
    request.resume();
  }
  const listener = await listen({
    host: '127.0.0.1',
    port: 0,
    keepAliveMs,
    connections: { ...unboundedConnections, ...bounds, onRefused: () => void refused++ },
    onRequest,
    onBrokenRequest: (_fault, socket) => socket.destroy(),
  });
  t.teardown(() => listener.close({ graceMs: 0, giveUp: () => {} }));
  async function open(): Promise<Socket> {
    const socket = connect(listener.port, '127.0.0.1');
    t.teardown(() => socket.destroy());
    socket.on('error', () => {});
    await once(socket, 'connect');
    return socket;
  }
  return { listener, inProgress, open, refused: () => refused };
}

/** Until the time-out of ava. */
async function until(claim: () => boolean): Promise<void> {
  while (!claim()) await new Promise((resolve) => setTimeout(resolve, 2));
}

function receivedBy(socket: Socket): () => string[] {
  let text = '';
  socket.on('data', (bytes) => {
    text += bytes.toString('latin1');
  });
  return () => [...text.matchAll(/<(.*?)>/g)].map(([, url = '']) => url);
}

const requests = (count: number, body = '') =>
  Array.from(
    { length: count },
    (_, index) => `POST /${index} HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  ).join('');
const urls = (count: number) => Array.from({ length: count }, (_, index) => `/${index}`);

test('four requests of one connection are in progress; the next ones follow in order, and all are answered', async (t) => {
  const { inProgress, open } = await start(t);
  const socket = await open();
  const received = receivedBy(socket);
  socket.write(requests(50));
  let most = 0;
  while (received().length < 50) {
    await until(() => inProgress.length > 0 || received().length === 50);
    most = Math.max(most, inProgress.length);
    inProgress[0]?.answer();
  }
  t.is(most, 4);
  t.deepEqual(received(), urls(50));
});

test('a connection with more than four requests is not read further, and continues when they are answered', async (t) => {
  const { inProgress, open } = await start(t);
  const socket = await open();
  const received = receivedBy(socket);
  const count = 200;
  const body = 'x'.repeat(20_000);
  socket.write(requests(count, body));
  await until(() => inProgress.length === 4);
  const [first] = inProgress;
  const other = await open();
  other.write(requests(1));
  await until(() => inProgress.length === 5);
  t.true(
    (first?.socket.bytesRead ?? 0) <= 262_144,
    `${first?.socket.bytesRead} of ${count * body.length} bytes were read`,
  );
  inProgress[4]?.answer();
  while (received().length < count) {
    await until(() => inProgress.length > 0 || received().length === count);
    inProgress[0]?.answer();
  }
  t.deepEqual(received(), urls(count));
});

test('a connection that pipelines hundreds of requests is closed, and others are served', async (t) => {
  const { inProgress, open } = await start(t);
  const [socket, other] = [await open(), await open()];
  socket.write(requests(1_000));
  await once(socket, 'close');
  other.write(requests(1));
  const received = receivedBy(other);
  await until(() => inProgress.some(({ socket: { remotePort } }) => remotePort === other.localPort));
  inProgress.find(({ socket: { remotePort } }) => remotePort === other.localPort)?.answer();
  await until(() => received().length === 1);
  t.deepEqual(received(), ['/0']);
});

test('requests that wait on a connection do not start after it has closed', async (t) => {
  const { inProgress, open } = await start(t);
  const socket = await open();
  socket.write(requests(20));
  await until(() => inProgress.length === 4);
  const [first] = inProgress;
  const ended = once(first?.socket ?? socket, 'close');
  first?.socket.destroy();
  await ended;
  for (const { answer } of [...inProgress]) answer();
  await new Promise((resolve) => setImmediate(resolve));
  t.is(inProgress.length, 0);
});

test('a connection beyond the limit of the process is closed immediately, and there is room again when one closes', async (t) => {
  const { inProgress, open, refused, listener } = await start(t, { connectionsMax: 3 });
  const sockets = [await open(), await open(), await open()];
  await until(() => listener.connections() === 3);
  const another = await open();
  await once(another.resume(), 'close');
  t.is(refused(), 1);
  sockets[0]?.destroy();
  await until(() => listener.connections() === 2);
  const next = await open();
  next.write(requests(1));
  await until(() => inProgress.length === 1);
  t.is(refused(), 1);
});

test('one address has at most its limit of connections, and there is room again when one closes', async (t) => {
  const { inProgress, open, refused, listener } = await start(t, { perAddressMax: 2 });
  const sockets = [await open(), await open()];
  await until(() => listener.connections() === 2);
  await once((await open()).resume(), 'close');
  t.is(refused(), 1);
  sockets[0]?.destroy();
  await until(() => listener.connections() === 1);
  const next = await open();
  next.write(requests(1));
  await until(() => inProgress.length === 1);
  t.is(refused(), 1);
});

test('a listener that drains accepts connections and serves them, and closes each after its answer', async (t) => {
  const { listener, inProgress, open } = await start(t);
  const before = await open();
  listener.drain();
  const after = await open();
  for (const socket of [before, after]) {
    let answer = '';
    socket.on('data', (bytes) => {
      answer += bytes.toString('latin1');
    });
    socket.write(requests(1));
    await until(() => inProgress.length === 1);
    inProgress[0]?.answer();
    await once(socket, 'close');
    t.regex(answer, /^HTTP\/1\.1 200 OK\r\n(.*\r\n)*connection: close\r\n/i);
    t.true(answer.endsWith('</0>'));
  }
});

test('the listener closes although no turn of the event loop is short', async (t) => {
  const { listener } = await start(t);
  let isClosed = false;
  const turn = () => {
    for (const until = performance.now() + 1; performance.now() < until; );
    if (!isClosed) setImmediate(turn);
  };
  turn();
  await listener.close({ graceMs: 10_000, giveUp: () => t.fail() });
  isClosed = true;
  await t.throwsAsync(once(connect(listener.port, '127.0.0.1'), 'connect'), { code: 'ECONNREFUSED' });
});

test('a connection that is unused for KEEP_ALIVE_MS after an answer is closed', async (t) => {
  const { inProgress, open } = await start(t, {}, 1);
  const socket = await open();
  socket.resume().write(requests(1));
  await until(() => inProgress.length === 1);
  inProgress[0]?.answer();
  await once(socket, 'close'); // Node adds a second
  t.is(inProgress.length, 0);
});

test('a connection that has arrived and was not accepted yet is served although the listener closes', async (t) => {
  const { listener, inProgress } = await start(t);
  const sockets = Array.from({ length: 20 }, () => connect(listener.port, '127.0.0.1'));
  const failures: string[] = [];
  for (const socket of sockets) {
    t.teardown(() => socket.destroy());
    socket.on('error', (error) => failures.push(error.message));
    socket.write('GET /late HTTP/1.1\r\nHost: x\r\n\r\n');
  }
  const received = sockets.map(receivedBy);
  const ended = sockets.map((socket) => new Promise((resolve) => socket.once('close', resolve)));
  await new Promise(process.nextTick); // the system connects each of them now, in this turn
  const closed = listener.close({ graceMs: 10_000, giveUp: () => t.fail() });
  await until(() => inProgress.length + failures.length === sockets.length);
  for (const { answer } of [...inProgress]) answer();
  await Promise.all([closed, ...ended]);
  t.deepEqual(failures, []);
  t.deepEqual(
    received.map((texts) => texts()),
    sockets.map(() => ['/late']),
  );
});
