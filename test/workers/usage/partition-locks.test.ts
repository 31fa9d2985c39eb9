import test from 'ava';
import type { Redis } from '../../../shared/redis/connections.ts';
import { partitionCount, partitionLockKey } from '../../../shared/redis/keys.ts';
import { createPartitionLocks } from '../../../workers/usage/partition-locks.ts';
import { type PrivateRedis, startPrivateRedis } from '../../support/private-redis.ts';

let own: PrivateRedis;

test.before(async () => {
  own = await startPrivateRedis();
});

test.beforeEach(async () => {
  await own.redis.flushall();
});

test.after.always(async () => {
  await own?.[Symbol.asyncDispose]();
});

/** Partitions of others that a renewal checks. */
const checkedAtOnce = 4;
const renewalsForAll = partitionCount / checkedAtOnce;
const all = Array.from({ length: partitionCount }, (_, partition) => partition);

const locksOf = (workerId: string, takenAtOnce = 8) =>
  createPartitionLocks({ redis: own.redis, workerId, holdMs: 5_000, takenAtOnce, random: Math.random });

const holderOf = (partition: number) => own.redis.get(partitionLockKey(partition));

/** Counts the keys that this connection reads. */
function countKeys(redis: Redis): () => number {
  const read = redis.mget.bind(redis) as (keys: string[]) => Promise<(string | null)[]>;
  let count = 0;
  redis.mget = (async (keys: string[]) => {
    count += keys.length;
    return read(keys);
  }) as typeof redis.mget;
  return () => count;
}

const sorted = (partitions: readonly number[]) => partitions.toSorted((one, other) => one - other);

test.serial('a worker acquires a few partitions at each renewal until it has all', async (t) => {
  const one = locksOf('one');
  t.deepEqual(one.held(), []);
  for (let renewals = 1; renewals <= 10; renewals += 1) {
    const taken = await one.renew();
    t.is(one.held().length, Math.min(partitionCount, renewals * 8));
    t.is(taken.length, renewals <= 8 ? 8 : 0);
  }
  t.deepEqual(sorted(one.held()), all);
});

test.serial('workers that start together share the partitions, and no partition is held by two', async (t) => {
  const workers = ['one', 'two', 'three', 'four'].map((name) => locksOf(name));
  for (let renewals = 0; renewals < 20; renewals += 1) await Promise.all(workers.map((worker) => worker.renew()));
  t.deepEqual(sorted(workers.flatMap((worker) => worker.held())), all);
  for (const worker of workers) t.true(worker.held().length > 0 && worker.held().length <= 40);
});

test.serial('a renewal extends the locks that are held to five seconds', async (t) => {
  const one = locksOf('one', 1);
  await one.renew();
  const key = partitionLockKey(one.held()[0] ?? -1);
  await own.redis.pexpire(key, 100);
  await one.renew();
  const leftMs = await own.redis.pttl(key);
  t.true(leftMs > 4_000 && leftMs <= 5_000);
});

test.serial(
  'partitions of a dead worker are acquired when their locks expire; a worker that was only slow notices it',
  async (t) => {
    const [slow, other] = [locksOf('slow', 64), locksOf('other', 64)];
    await slow.renew();
    await other.renew();
    t.deepEqual([slow.held().length, other.held().length], [64, 0]);
    for (const partition of [3, 7]) await own.redis.del(partitionLockKey(partition)); // as if they had expired
    for (let renewals = 0; renewals < renewalsForAll; renewals += 1) await other.renew();
    t.deepEqual(sorted(other.held()), [3, 7], 'all have been checked');
    await slow.renew();
    t.is(slow.held().length, 62);
    t.is(await holderOf(3), 'other');
  },
);

test.serial('a renewal checks a few partitions of others, in turn, and all of them if one is free', async (t) => {
  const [one, other] = [locksOf('one', 64), locksOf('other', 64)];
  await one.renew();
  const checked = countKeys(own.redis);
  for (let renewals = 1; renewals <= renewalsForAll; renewals += 1) {
    await other.renew();
    t.is(checked(), renewals * checkedAtOnce);
  }
  for (const partition of all.slice(0, 32)) await own.redis.del(partitionLockKey(partition));
  for (let renewals = 1; other.held().length === 0; renewals += 1) {
    t.true(renewals <= renewalsForAll);
    await other.renew();
  }
  t.deepEqual(sorted(other.held()), all.slice(0, 32));
});

test.serial('a worker acquires the locks that it has without knowing, because an answer was lost', async (t) => {
  const [one, other] = [locksOf('one', 64), locksOf('other', 64)];
  await other.renew();
  for (const partition of [3, 7]) await own.redis.set(partitionLockKey(partition), 'one', 'PX', 5_000);
  for (let renewals = 0; renewals < renewalsForAll; renewals += 1) await one.renew();
  t.deepEqual(sorted(one.held()), [3, 7]);
});

test.serial('a worker that stops releases its own partitions, and none of another worker', async (t) => {
  const [one, other] = [locksOf('one', 64), locksOf('other', 64)];
  await one.renew();
  await own.redis.set(partitionLockKey(5), 'third');
  await one.release();
  t.deepEqual(one.held(), []);
  t.is(await holderOf(5), 'third');
  for (let renewals = 0; renewals < renewalsForAll; renewals += 1) await other.renew();
  t.is(other.held().length, 63, 'a partition that another worker acquired meanwhile is not free');
});

test.serial('partitions are acquired and renewed when Redis is out of memory', async (t) => {
  const one = locksOf('one', 64);
  await own.redis.config('SET', 'maxmemory', '1');
  t.teardown(() => own.redis.config('SET', 'maxmemory', '0'));
  await one.renew();
  await one.renew();
  t.is(one.held().length, 64);
  await one.release();
  t.is(await own.redis.dbsize(), 0);
});
