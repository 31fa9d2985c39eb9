import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { controlStreamKey, partitionLockKey } from '../../../shared/redis/keys.ts';
import { createRingDrainer, decodeRing } from '../../../workers/usage/ring-drainers.ts';
import { openRedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { accountOf } from '../../support/usage-events.ts';

/** A worker that looks after partition 1; `other` has 2 and 3, and 4 is held by one whose control stream is not there. */
async function open() {
  const parts = new AsyncDisposableStack();
  const own = parts.use(await openRedisDatabase());
  const { redis } = own;
  const holders = { 1: 'this', 2: 'other', 3: 'other', 4: 'another release' };
  for (const [partition, holder] of Object.entries(holders))
    await redis.set(partitionLockKey(Number(partition)), holder);
  await redis.xadd(controlStreamKey('other'), '1-1', 'opened', '1');
  const rungHere: number[] = [];
  const ringOwn = (partition: number) => {
    rungHere.push(partition);
    return partition === 1;
  };
  const connection = own.connect();
  const added = Promise.withResolvers<void>();
  const add = connection.xadd.bind(connection) as (...args: unknown[]) => Promise<string | null>;
  let adding = 0;
  connection.xadd = (async (...args: unknown[]) => {
    const id = await add(...args);
    if (++adding === 2) added.resolve();
    return id;
  }) as typeof connection.xadd;
  const { log } = recordedLog();
  const ring = parts.use(createRingDrainer({ redis, replyRedis: connection, ringOwn, log, pauseMs: 10 }));
  return { redis, ring, rungHere, added: added.promise, [Symbol.asyncDispose]: () => parts.disposeAsync() };
}

test('usage of one’s own partition rings here at once, that of others in one entry for each worker that can be told', async (t) => {
  await using side = await open();
  const { redis, ring, rungHere } = side;
  for (const partition of [1, 2, 3, 2, 4, 5]) ring(accountOf(partition));
  t.deepEqual(rungHere, [1, 2, 3, 2, 4, 5]);
  await side.added;
  const entries = await redis.xrange(controlStreamKey('other'), '(1-1', '+');
  t.deepEqual(
    entries.map(([, fields]) => fields),
    [['drain', '2,3']],
  );
  t.deepEqual(await redis.keys('svc:control:*'), [controlStreamKey('other')]);
});

test('while a Redis is away, rings are gathered and wait for one call', async (t) => {
  await using own = await openRedisDatabase();
  await own.redis.set(partitionLockKey(2), 'other');
  const connection = own.connect();
  const back = Promise.withResolvers<string>();
  let calls = 0;
  connection.xadd = (() => {
    calls++;
    return back.promise;
  }) as typeof connection.xadd;
  const { log } = recordedLog();
  using ring = createRingDrainer({ redis: own.redis, replyRedis: connection, ringOwn: () => false, log, pauseMs: 1 });
  while (calls === 0) {
    ring(accountOf(2));
    await sleep(5);
  }
  for (let round = 0; round < 10; round++) {
    ring(accountOf(2));
    await sleep(5);
  }
  t.is(calls, 1);
  back.resolve('1-1');
  while (calls < 2) await sleep(5);
  t.is(calls, 2);
});

test('a ring says which partitions, and nothing else in a control stream is one', (t) => {
  t.deepEqual(decodeRing({ drain: '2,63' }), [2, 63]);
  for (const fields of [{}, { drain: '' }, { drain: '2,' }, { drain: '99999' }, { request: '2' }, { line: '{}' }]) {
    t.deepEqual(decodeRing(fields), []);
  }
});
