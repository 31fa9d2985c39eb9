import test from 'ava';
import { createAcquireLock, createReleaseLock } from '../../../workers/upkeep/locks.ts';
import { type PrivateRedis, startPrivateRedis } from '../../support/private-redis.ts';

let own: PrivateRedis;
let keys = 0;

test.before(async () => {
  own = await startPrivateRedis();
});

test.after.always(() => own?.[Symbol.asyncDispose]());

function workers(holdMs = 60_000) {
  const key = `held:${keys++}`;
  return {
    key,
    ...Object.fromEntries(
      ['one', 'other'].map((workerId) => [
        workerId,
        {
          acquireLock: () => createAcquireLock(own.redis, { workerId, holdMs })(key),
          releaseLock: () => createReleaseLock(own.redis, { workerId })(key),
        },
      ]),
    ),
  } as { key: string } & Record<
    'one' | 'other',
    { acquireLock: () => Promise<boolean>; releaseLock: () => Promise<void> }
  >; // the properties have the names above
}

test('the holder can renew the lock, and no other worker gets it meanwhile', async (t) => {
  const { key, one, other } = workers();
  t.true(await one.acquireLock());
  t.false(await other.acquireLock());
  await own.redis.pexpire(key, 1_000);
  t.true(await one.acquireLock());
  const leftMs = await own.redis.pttl(key);
  t.true(leftMs > 1_000 && leftMs <= 60_000, 'for the full time again');
});

test('a refused worker does not extend the holder’s time', async (t) => {
  const { key, one, other } = workers();
  await one.acquireLock();
  await own.redis.pexpire(key, 1_000);
  await other.acquireLock();
  t.true((await own.redis.pttl(key)) <= 1_000);
});

test('an expired lock goes to the next worker', async (t) => {
  const { key, one, other } = workers();
  await one.acquireLock();
  await own.redis.del(key); // as if it had expired
  t.true(await other.acquireLock());
  t.false(await one.acquireLock());
});

test('a release frees the lock at once, and has no effect on another worker’s lock', async (t) => {
  const { key, one, other } = workers();
  await one.acquireLock();
  await other.releaseLock();
  t.is(await own.redis.get(key), 'one');
  await one.releaseLock();
  await one.releaseLock();
  t.is(await own.redis.exists(key), 0);
  t.true(await other.acquireLock());
});

test('of many concurrent workers, one gets the lock', async (t) => {
  const key = `held:${keys++}`;
  const asked = await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      createAcquireLock(own.redis, { workerId: `${index}`, holdMs: 60_000 })(key),
    ),
  );
  t.is(asked.filter(Boolean).length, 1);
});

test.serial('acquiring and releasing work when Redis is out of memory', async (t) => {
  const { key, one } = workers();
  await own.redis.config('SET', 'maxmemory', '1');
  t.teardown(() => own.redis.config('SET', 'maxmemory', '0'));
  await t.throwsAsync(own.redis.set('anything', 'else'), { message: /OOM/ });
  t.true(await one.acquireLock());
  await one.releaseLock();
  t.is(await own.redis.exists(key), 0);
});
