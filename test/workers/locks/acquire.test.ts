import test from 'ava';
import { createHold } from '../../../workers/locks/acquire.ts';
import { createLeave } from '../../../workers/locks/release.ts';
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
          hold: () => createHold(own.redis, { workerId, holdMs })(key),
          leave: () => createLeave(own.redis, { workerId })(key),
        },
      ]),
    ),
  } as { key: string } & Record<'one' | 'other', { hold: () => Promise<boolean>; leave: () => Promise<void> }>; // as they are named above
}

test('who holds goes on holding, and nobody else does meanwhile', async (t) => {
  const { key, one, other } = workers();
  t.true(await one.hold());
  t.false(await other.hold());
  await own.redis.pexpire(key, 1_000);
  t.true(await one.hold());
  const leftMs = await own.redis.pttl(key);
  t.true(leftMs > 1_000 && leftMs <= 60_000, 'for as long again');
});

test('a refusal makes the holder’s time no longer', async (t) => {
  const { key, one, other } = workers();
  await one.hold();
  await own.redis.pexpire(key, 1_000);
  await other.hold();
  t.true((await own.redis.pttl(key)) <= 1_000);
});

test('what is held no longer is the next one’s', async (t) => {
  const { key, one, other } = workers();
  await one.hold();
  await own.redis.del(key); // as when its time is over
  t.true(await other.hold());
  t.false(await one.hold());
});

test('who leaves leaves it to the next one at once, and what another holds stays held', async (t) => {
  const { key, one, other } = workers();
  await one.hold();
  await other.leave();
  t.is(await own.redis.get(key), 'one');
  await one.leave();
  await one.leave();
  t.is(await own.redis.exists(key), 0);
  t.true(await other.hold());
});

test('of many that ask at once one holds', async (t) => {
  const key = `held:${keys++}`;
  const asked = await Promise.all(
    Array.from({ length: 20 }, (_, index) => createHold(own.redis, { workerId: `${index}`, holdMs: 60_000 })(key)),
  );
  t.is(asked.filter(Boolean).length, 1);
});

test.serial('holding and leaving go on when Redis is out of memory', async (t) => {
  const { key, one } = workers();
  await own.redis.config('SET', 'maxmemory', '1');
  t.teardown(() => own.redis.config('SET', 'maxmemory', '0'));
  await t.throwsAsync(own.redis.set('anything', 'else'), { message: /OOM/ });
  t.true(await one.hold());
  await one.leave();
  t.is(await own.redis.exists(key), 0);
});
