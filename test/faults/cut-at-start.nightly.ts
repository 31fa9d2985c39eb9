import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { startRedis } from '../stack/redis-server.ts';
import { startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';
import { faultTest } from '../support/faults/fault-test.ts';

/** Forwards everything to Redis, but closes the connection on which the nth INFO arrives, once. */
async function startCutter(port: number, nth: number) {
  let seen = 0;
  const server = createServer((client) => {
    const upstream = connect(port, '127.0.0.1');
    for (const socket of [client, upstream]) socket.on('error', () => {});
    client.on('data', (bytes) => {
      if (/\binfo\b/i.test(bytes.toString('latin1')) && ++seen === nth) return client.destroy();
      return upstream.write(bytes);
    });
    upstream.on('data', (bytes) => client.write(bytes));
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address() as AddressInfo; // a TCP server has one
  return { port: address.port, cut: () => seen >= nth, [Symbol.dispose]: () => server.close() };
}

const cutsMax = 7;

faultTest(
  test,
  {
    id: '24b',
    done: 'while an ingress starts, its connection to Redis is closed at each of its first queries',
    promised: 'it waits, and then works',
  },
  async (t, see) => {
    t.timeout(120_000);
    const statuses: number[] = [];
    for (let nth = 1; nth <= cutsMax; nth += 1) {
      const { isCut, status } = await startCutAt(t, nth);
      t.is(status, 200, `closed at number ${nth}`);
      if (!isCut) break;
      statuses.push(status);
    }
    t.true(statuses.length > 1, 'a start sends more than one query; otherwise this proves nothing');
    const answered = statuses.filter((status) => status === 200).length;
    see(`${answered} of ${statuses.length} interrupted starts ended in an answered request`);
  },
);

/** `isCut`: there was a query of that number. `status` is the response to a request after the start. */
async function startCutAt(t: ExecutionContext, nth: number): Promise<{ isCut: boolean; status: number }> {
  const directory = await mkdtemp(join(tmpdir(), 'cut-at-start-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  await using redis = await startRedis({ directory });
  await using stack = await startStack({ redisUrl: redis.url, ingresses: 0 });
  using cutter = await startCutter(redis.port, nth);
  const ingress = await stack.startIngress({ REDIS_URL: `redis://127.0.0.1:${cutter.port}` });
  const { status } = await chat({ url: ingress.url, key: await stack.mintKey('alice'), question: 'Are you there?' });
  return { isCut: cutter.cut(), status };
}
