import test from 'ava';
import { markLifeMs } from '../../../shared/account-changes/change-account.ts';
import { createAdmit } from '../../../shared/limits/admit.ts';
import { changesKey, countersKey, fillKey, leasesKey, versionKey } from '../../../shared/redis/keys.ts';
import { createMarkRemoval } from '../../../workers/upkeep/remove-unused-devices.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { replaceClock } from '../../support/redis-clock.ts';

const oneMs = { queueMs: 1, requestMs: 1 };

const account = 'device:1';
const now = 1_900_000_000_000;

let own: RedisDatabase;
let setTime: (nowMs: number) => Promise<void>;
test.before(async () => {
  own = await openRedisDatabase();
  setTime = replaceClock(own.redis);
});
test.after.always(() => own?.[Symbol.asyncDispose]());
test.beforeEach(async () => {
  await own.redis.flushdb();
  await setTime(now);
});

test.serial('while the mark exists, a caller is read from the store, and is not cached', async (t) => {
  t.true(await createMarkRemoval(own.redis)(account, 'removal'));
  const admit = createAdmit(own.redis, { timeouts: () => oneMs, outboxLengthMax: 1 });
  const looked = await admit.look({ account, requestId: 'req_1', version: 1 });
  t.is(looked.outcome, 'stale');
  if (looked.outcome !== 'stale') return;
  const read = { account, requestId: 'req_1', version: 1, reading: looked.reading };
  t.is((await admit.look(read)).outcome, 'current');
  t.is((await admit.look({ account, requestId: 'req_2', version: 1 })).outcome, 'stale');
  t.is(await own.redis.get(versionKey(account)), null);

  await setTime(now + markLifeMs);
  await admit.look({ account, requestId: 'req_3', version: 1 });
  t.truthy(await own.redis.get(fillKey(account)), 'afterwards it can be cached');
});

test.serial('a device with a use or a change in Redis is not marked', async (t) => {
  const markRemoval = createMarkRemoval(own.redis);
  const { redis } = own;
  const signs: Record<string, () => Promise<unknown>> = {
    'a version': () => redis.set(versionKey(account), 1),
    'a reading': () => redis.set(fillKey(account), 'token'),
    'a counter': () => redis.hset(countersKey(account), 'day', 1),
    'a lease': () => redis.hset(leasesKey(account), 'req_1', '{}'),
    'a change': () => redis.zadd(changesKey(account), now + 1, 'change'),
  };
  for (const [title, make] of Object.entries(signs)) {
    await redis.flushdb();
    await setTime(now);
    await make();
    t.false(await markRemoval(account, 'removal'), title);
    t.is(await redis.zscore(changesKey(account), 'removal'), null, title);
  }
});

test.serial('a mark expires if its process has died', async (t) => {
  await createMarkRemoval(own.redis)(account, 'removal');
  const leftMs = await own.redis.pttl(changesKey(account));
  t.true(leftMs > 0 && leftMs <= markLifeMs);
});
