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

/** Passes everything on to Redis, but cuts the connection on which the nth INFO of all comes, once. */
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
    done: 'while an ingress starts, its connection to Redis is cut at each of the first questions that are asked there',
    promised: 'it waits, and then works',
  },
  async (t, see) => {
    t.timeout(120_000);
    let cuts = 0;
    while (cuts < cutsMax && (await startsAllTheSame(t, cuts + 1))) cuts += 1;
    t.true(cuts > 1, 'a start asks more than once, or this proves nothing');
    see(`${cuts} of ${cuts} starts that were cut ended in an answered request`);
  },
);

/** Whether there was a question of that number, so that it was cut. */
async function startsAllTheSame(t: ExecutionContext, nth: number): Promise<boolean> {
  const directory = await mkdtemp(join(tmpdir(), 'cut-at-start-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  await using redis = await startRedis({ directory });
  await using stack = await startStack({ redisUrl: redis.url, ingresses: 0 });
  using cutter = await startCutter(redis.port, nth);
  const ingress = await stack.startIngress({ REDIS_URL: `redis://127.0.0.1:${cutter.port}` });
  const answer = await chat({ url: ingress.url, key: await stack.mintKey('alice'), question: 'Are you there?' });
  t.is(answer.status, 200, `cut at number ${nth}`);
  return cutter.cut();
}
