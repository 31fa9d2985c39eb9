import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { controlStreamKey, partitionLockKey } from '../../../shared/redis/keys.ts';
import { createNotifyDrainer, decodeDrainRequest } from '../../../workers/usage/notify-drainers.ts';
import { openRedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { accountOf } from '../../support/usage-events.ts';

/** A worker that holds partition 1. `other` holds 2 and 3, and 4 is held by a worker that has no control stream. */
async function open() {
  const parts = new AsyncDisposableStack();
  const own = parts.use(await openRedisDatabase());
  const { redis } = own;
  const holders = { 1: 'this', 2: 'other', 3: 'other', 4: 'another release' };
  for (const [partition, holder] of Object.entries(holders))
    await redis.set(partitionLockKey(Number(partition)), holder);
  await redis.xadd(controlStreamKey('other'), '1-1', 'opened', '1');
  const notifiedHere: number[] = [];
  const notifyOwn = (partition: number) => {
    notifiedHere.push(partition);
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
  const notify = parts.use(createNotifyDrainer({ redis, replyRedis: connection, notifyOwn, log, pauseMs: 10 }));
  return { redis, notify, notifiedHere, added: added.promise, [Symbol.asyncDispose]: () => parts.disposeAsync() };
}

test('own partitions are notified at once, and those of others by one entry for each worker that has a control stream', async (t) => {
  await using side = await open();
  const { redis, notify, notifiedHere } = side;
  for (const partition of [1, 2, 3, 2, 4, 5]) notify(accountOf(partition));
  t.deepEqual(notifiedHere, [1, 2, 3, 2, 4, 5]);
  await side.added;
  const entries = await redis.xrange(controlStreamKey('other'), '(1-1', '+');
  t.deepEqual(
    entries.map(([, fields]) => fields),
    [['drain', '2,3']],
  );
  t.deepEqual(await redis.keys('svc:control:*'), [controlStreamKey('other')]);
});

test('while a Redis is unavailable, notifications are gathered and wait for one call', async (t) => {
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
  using notify = createNotifyDrainer({
    redis: own.redis,
    replyRedis: connection,
    notifyOwn: () => false,
    log,
    pauseMs: 1,
  });
  while (calls === 0) {
    notify(accountOf(2));
    await sleep(5);
  }
  for (let round = 0; round < 10; round++) {
    notify(accountOf(2));
    await sleep(5);
  }
  t.is(calls, 1);
  back.resolve('1-1');
  while (calls < 2) await sleep(5);
  t.is(calls, 2);
});

test('a drain request names its partitions, and no other entry of a control stream is one', (t) => {
  t.deepEqual(decodeDrainRequest({ drain: '2,63' }), [2, 63]);
  for (const fields of [{}, { drain: '' }, { drain: '2,' }, { drain: '99999' }, { request: '2' }, { line: '{}' }]) {
    t.deepEqual(decodeDrainRequest(fields), []);
  }
});
