import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import test from 'ava';
import { createResolveHost } from '../../../shared/webhooks/resolve-host.ts';

const [headBytes, typeA] = [12, 1];
const isPrivate = false;

type Answering = (question: { host: string; type: number }) => readonly number[] | undefined;

/** A name server on loopback that answers with one record of these bytes, with no record if there are none, or not at all. */
async function startNameServer(answering: Answering) {
  const asked: string[] = [];
  const socket = createSocket('udp4');
  socket.on('message', (query, { port, address }) => {
    const { host, end } = hostIn(query);
    const type = query.readUInt16BE(end);
    asked.push(host);
    const data = answering({ host, type });
    if (data !== undefined) socket.send(answerTo(query, { end, type, data }), port, address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return {
    asked,
    servers: [`127.0.0.1:${socket.address().port}`],
    async [Symbol.asyncDispose]() {
      await new Promise<void>((resolve) => socket.close(resolve));
    },
  };
}

function hostIn(query: Buffer): { host: string; end: number } {
  const labels: string[] = [];
  let at = headBytes;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { host: labels.join('.').toLowerCase(), end: at + 1 };
}

/** RFC 1035, section 4.1. The record refers to the name in the question. */
function answerTo(query: Buffer, { end, type, data }: { end: number; type: number; data: readonly number[] }): Buffer {
  const head = Buffer.from([...query.subarray(0, 2), 0x81, 0x80, 0, 1, 0, data.length === 0 ? 0 : 1, 0, 0, 0, 0]);
  const record = [0xc0, headBytes, 0, type, 0, 1, 0, 0, 0, 0, 0, data.length, ...data];
  return Buffer.concat([head, query.subarray(headBytes, end + 4), Buffer.from(data.length === 0 ? [] : record)]);
}

const ipv4 = [93, 184, 216, 34];
const ipv6 = [0x20, 1, 0x48, 0x60, ...Array.from({ length: 11 }, () => 0), 1];

test('returns all IPv4 and IPv6 addresses', async (t) => {
  await using server = await startNameServer(({ type }) => (type === typeA ? ipv4 : ipv6));
  const resolve = createResolveHost(server);
  t.deepEqual(await resolve('receiver.example.com', { isPrivate }), ['93.184.216.34', '2001:4860::1']);
  t.deepEqual(server.asked, ['receiver.example.com', 'receiver.example.com']);
});

test('one kind of address is enough', async (t) => {
  await using server = await startNameServer(({ type }) => (type === typeA ? ipv4 : []));
  t.deepEqual(await createResolveHost(server)('receiver.example.com', { isPrivate }), ['93.184.216.34']);
});

test('a name without addresses has none, and no search domain is added', async (t) => {
  await using server = await startNameServer(() => []);
  t.deepEqual(await createResolveHost(server)('receiver', { isPrivate }), []);
  t.deepEqual([...new Set(server.asked)], ['receiver']);
});

test('a name server is waited for only until the time limit', async (t) => {
  const seen = new Set<number>();
  await using server = await startNameServer(({ type }) => {
    if (seen.has(type)) return type === typeA ? ipv4 : ipv6;
    seen.add(type);
    return undefined; // it would answer the second query, which follows after seconds
  });
  t.deepEqual(await createResolveHost({ ...server, resolveMsMax: 50 })('receiver.example.com', { isPrivate }), []);
});

test('a listed host is looked up as the system does, without a name server', async (t) => {
  await using server = await startNameServer(() => undefined);
  const found = await createResolveHost(server)('localhost', { isPrivate: true });
  t.true(found.some((address) => ['127.0.0.1', '::1'].includes(address)));
  t.deepEqual(server.asked, []);
});
