import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { addressIn, type Mode, startTcpProxy } from '../tcp-proxy.ts';

/** Long compared with the delays of a busy machine, short for a test that waits for the absence of data. */
const nothingComesMs = 150;

/** Answers each line with its name and the line, and records what it received. */
async function startEcho(t: ExecutionContext, name: string) {
  const got: string[] = [];
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (bytes) => {
      got.push(String(bytes));
      socket.write(`${name}: ${bytes}`);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo; // a TCP server has one
  return { got, address: { host: '127.0.0.1', port } };
}

async function openProxy(t: ExecutionContext, mode?: Mode) {
  const echo = await startEcho(t, 'one');
  const proxy = await startTcpProxy(echo.address, mode);
  t.teardown(() => proxy[Symbol.asyncDispose]());
  const open = async () => {
    const socket = connect(proxy.port, '127.0.0.1');
    const client = follow(socket);
    await once(socket, 'connect').catch(() => {}); // its end is reported by `ended`
    return client;
  };
  return { echo, proxy, open };
}

/** A client, the data it received, and how its connection ended: the code of its error, or `closed`. */
function follow(socket: Socket) {
  let text = '';
  let code = 'closed';
  const ended = new Promise<string>((resolve) => socket.on('close', () => resolve(code)));
  socket.on('error', (error: NodeJS.ErrnoException) => {
    code = error.code ?? 'no code';
  });
  socket.on('data', (bytes) => {
    text += bytes;
  });
  return {
    ended,
    write: (bytes: string) => socket.write(bytes),
    text: () => text,
    async answer(bytes: string): Promise<string> {
      text = '';
      socket.write(bytes);
      while (text.length < bytes.length + 'one: '.length) await once(socket, 'data');
      return text;
    },
  };
}

test('data that passes is answered', async (t) => {
  const { open, proxy } = await openProxy(t);
  const client = await open();
  t.is(await client.answer('a'), 'one: a');
  t.is(proxy.connections(), 1);
});

for (const [mode, how] of [['refuse', 'closed'] as const, ['reset', 'ECONNRESET'] as const]) {
  test(`${mode} ends open connections and new ones: ${how}`, async (t) => {
    const { echo, open, proxy } = await openProxy(t);
    const client = await open();
    t.is(await client.answer('a'), 'one: a');
    proxy.become(mode);
    t.is(await client.ended, how);
    t.is(await (await open()).ended, how);
    proxy.become('pass');
    t.is(await (await open()).answer('b'), 'one: b');
    t.deepEqual(echo.got, ['a', 'b']);
  });
}

for (const [mode, got] of [['black hole', ['a', 'd']] as const, ['swallow replies', ['a', 'b', 'c', 'd']] as const]) {
  test(`${mode} keeps connections without answers, and their end ends it`, async (t) => {
    const { echo, open, proxy } = await openProxy(t);
    const before = await open();
    t.is(await before.answer('a'), 'one: a');
    proxy.become(mode);
    before.write('b');
    const during = await open();
    await sleep(nothingComesMs);
    during.write('c');
    await sleep(nothingComesMs);
    t.deepEqual([before.text(), during.text(), proxy.connections()], ['one: a', '', 2]);
    proxy.become('pass');
    t.deepEqual(await Promise.all([before.ended, during.ended]), ['closed', 'closed']);
    t.is(await (await open()).answer('d'), 'one: d');
    t.deepEqual(echo.got, [...got]);
  });
}

test('slow delays each direction, in order, and becomes fast with its connections', async (t) => {
  const { open, proxy } = await openProxy(t, { slowMs: 60 });
  const client = await open();
  const askedAt = performance.now();
  t.is(await client.answer('a'), 'one: a');
  t.true(performance.now() - askedAt >= 118, 'twice 60 ms, except for rounding of timers');
  proxy.become('pass');
  t.is(await client.answer('b'), 'one: b');
});

test('another target gets new connections, and connections to the previous one are ended', async (t) => {
  const { open, proxy } = await openProxy(t);
  const other = await startEcho(t, 'two');
  const client = await open();
  t.is(await client.answer('a'), 'one: a');
  proxy.pointAt(other.address);
  t.is(await client.ended, 'closed');
  t.is(await (await open()).answer('b'), 'two: b');
});

test('a hold before a text keeps it from the target, with all that follows on that connection', async (t) => {
  const { echo, open, proxy } = await openProxy(t);
  const [held, free] = [await open(), await open()];
  const reached = proxy.holdBefore('stop');
  held.write('a stop');
  await reached;
  held.write('b');
  t.is(await free.answer('c'), 'one: c');
  t.deepEqual(echo.got, ['c']);
});

test('a hold after a text lets it through, and nothing back on that connection', async (t) => {
  const { echo, open, proxy } = await openProxy(t);
  const held = await open();
  const reached = proxy.holdAfter('stop');
  held.write('a stop');
  await reached;
  t.is(held.text(), '');
  t.deepEqual(echo.got, ['a stop']);
  proxy.become('pass');
  t.is(await held.ended, 'closed');
});

test('commands are swallowed all at once, kind after kind', async (t) => {
  const { echo, open, proxy } = await openProxy(t);
  const client = await open();
  const sent = proxy.swallow([
    { text: 'first', count: 2 },
    { text: 'second', count: 1 },
  ]);
  client.write('first 1 ');
  await sleep(nothingComesMs);
  t.deepEqual(echo.got, [], 'one of two is kept');
  t.is(await client.answer('first 2 '), 'one: first 1 first 2 ');
  client.write('second');
  await sent;
  await sleep(nothingComesMs);
  t.is(client.text(), 'one: first 1 first 2 ');
  t.deepEqual(echo.got, ['first 1 first 2 ', 'second']);
});

test('a text that arrives in two pieces is still found', async (t) => {
  for (const where of ['before', 'after'] as const) {
    const { echo, open, proxy } = await openProxy(t);
    const client = await open();
    const reached = where === 'before' ? proxy.holdBefore('stop') : proxy.holdAfter('stop');
    t.is(await client.answer('a st'), 'one: a st');
    client.write('op b');
    await reached;
    await sleep(nothingComesMs);
    t.is(client.text(), 'one: a st', where);
    t.deepEqual(echo.got, where === 'before' ? ['a st'] : ['a st', 'op b']);
  }

  const { echo, open, proxy } = await openProxy(t);
  const client = await open();
  const sent = proxy.swallow([
    { text: 'first', count: 2 },
    { text: 'the second', count: 1 },
  ]);
  t.is(await client.answer('fi'), 'one: fi');
  client.write('rst 1 fir');
  await sleep(nothingComesMs);
  t.deepEqual(echo.got, ['fi'], 'one of two is kept');
  t.is(await client.answer('st 2 the'), 'one: rst 1 first 2 the');
  client.write(' second');
  await sent;
  await sleep(nothingComesMs);
  t.is(client.text(), 'one: rst 1 first 2 the');
  t.deepEqual(echo.got, ['fi', 'rst 1 first 2 the', ' second']);
});

test('a text is found once, and similar ones are not', async (t) => {
  const { echo, open, proxy } = await openProxy(t);
  const client = await open();
  void proxy.swallow([{ text: 'twice', count: 2 }]);
  t.is(await client.answer('twi'), 'one: twi');
  t.is(await client.answer('st '), 'one: st ');
  client.write('twice ');
  await sleep(nothingComesMs);
  t.is(echo.got.join(''), 'twist ', 'one of two is kept');
});

test('the address of a server is read from a URL of any scheme', (t) => {
  t.deepEqual(addressIn('redis://127.0.0.1:6379/0'), { host: '127.0.0.1', port: 6_379 });
  t.deepEqual(addressIn('mongodb://localhost:27017'), { host: 'localhost', port: 27_017 });
});
