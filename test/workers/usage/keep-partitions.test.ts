import test from 'ava';
import type { Redis } from 'ioredis';
import { partitionCount, partitionLockKey } from '../../../shared/redis/keys.ts';
import { createPartitionKeeper } from '../../../workers/usage/keep-partitions.ts';
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

/** Of what others hold, at a look. */
const askedAtOnce = 4;
const looksForAll = partitionCount / askedAtOnce;
const all = Array.from({ length: partitionCount }, (_, partition) => partition);

const keeper = (workerId: string, takenAtOnce = 8) =>
  createPartitionKeeper({ redis: own.redis, workerId, holdMs: 5_000, takenAtOnce, random: Math.random });

const holderOf = (partition: number) => own.redis.get(partitionLockKey(partition));

/** How many keys were read since by this connection. */
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

test.serial('one worker takes a few at each look until it has all, and no more than there are', async (t) => {
  const one = keeper('one');
  t.deepEqual(one.held(), []);
  for (let looks = 1; looks <= 10; looks += 1) {
    const taken = await one.look();
    t.is(one.held().length, Math.min(partitionCount, looks * 8));
    t.is(taken.length, looks <= 8 ? 8 : 0);
  }
  t.deepEqual(sorted(one.held()), all);
});

test.serial('workers that start together share, and no partition is held by two', async (t) => {
  const workers = ['one', 'two', 'three', 'four'].map((name) => keeper(name));
  for (let looks = 0; looks < 20; looks += 1) await Promise.all(workers.map((worker) => worker.look()));
  t.deepEqual(sorted(workers.flatMap((worker) => worker.held())), all);
  for (const worker of workers) t.true(worker.held().length > 0 && worker.held().length <= 40);
});

test.serial('a look renews what is held, which ends within seconds where nobody looks', async (t) => {
  const one = keeper('one', 1);
  await one.look();
  const key = partitionLockKey(one.held()[0] ?? -1);
  await own.redis.pexpire(key, 100);
  await one.look();
  const leftMs = await own.redis.pttl(key);
  t.true(leftMs > 4_000 && leftMs <= 5_000);
});

test.serial(
  'what a dead worker held is taken over when its hold ends; it finds so when it was only slow',
  async (t) => {
    const [slow, other] = [keeper('slow', 64), keeper('other', 64)];
    await slow.look();
    await other.look();
    t.deepEqual([slow.held().length, other.held().length], [64, 0]);
    for (const partition of [3, 7]) await own.redis.del(partitionLockKey(partition)); // as its end does
    for (let looks = 0; looks < looksForAll; looks += 1) await other.look();
    t.deepEqual(sorted(other.held()), [3, 7], 'all have been asked for');
    await slow.look();
    t.is(slow.held().length, 62);
    t.is(await holderOf(3), 'other');
  },
);

test.serial(
  'of what others hold a look asks for a few, in turns, and for all where one of these is free',
  async (t) => {
    const [one, other] = [keeper('one', 64), keeper('other', 64)];
    await one.look();
    const asked = countKeys(own.redis);
    for (let looks = 1; looks <= looksForAll; looks += 1) {
      await other.look();
      t.is(asked(), looks * askedAtOnce);
    }
    for (const partition of all.slice(0, 32)) await own.redis.del(partitionLockKey(partition));
    for (let looks = 1; other.held().length === 0; looks += 1) {
      t.true(looks <= looksForAll);
      await other.look();
    }
    t.deepEqual(sorted(other.held()), all.slice(0, 32));
  },
);

test.serial('a worker that leaves frees what is its own, and nothing of others', async (t) => {
  const [one, other] = [keeper('one', 64), keeper('other', 64)];
  await one.look();
  await own.redis.set(partitionLockKey(5), 'other');
  await one.releaseLock();
  t.deepEqual(one.held(), []);
  t.is(await holderOf(5), 'other');
  for (let looks = 0; looks < looksForAll; looks += 1) await other.look();
  t.is(other.held().length, 63, 'the one that it does not know of is not free');
});

test.serial('partitions are taken and kept when Redis is out of memory', async (t) => {
  const one = keeper('one', 64);
  await own.redis.config('SET', 'maxmemory', '1');
  t.teardown(() => own.redis.config('SET', 'maxmemory', '0'));
  await one.look();
  await one.look();
  t.is(one.held().length, 64);
  await one.releaseLock();
  t.is(await own.redis.dbsize(), 0);
});
