import test from 'ava';
import { createMinuteCounts } from '../../../ingress/limits/minute-counts.ts';
import { connectForRequests, type Redis } from '../../../shared/redis/connections.ts';
import { authFailuresKey } from '../../../shared/redis/keys.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const network = '203.0.113.7';
const key = authFailuresKey(network);

let own: RedisDatabase;
test.before(async () => {
  own = await openRedisDatabase();
});
test.after.always(() => own?.[Symbol.asyncDispose]());
test.beforeEach(() => own.redis.flushdb());

/** The counts of an ingress, whose clock stands still until it is moved. */
function createSubject(redis: Redis = own.redis) {
  let now = 5_000;
  const counts = createMinuteCounts({ redis, keyOf: authFailuresKey, log: recordedLog().log, now: () => now });
  return {
    ...counts,
    pass(ms: number) {
      now += ms;
    },
  };
}

test.serial('all ingresses share a count, and each knows its last value', async (t) => {
  const [one, other] = [createSubject(), createSubject()];
  t.deepEqual(one.known(network), { count: 0, leftMs: 0 });
  for (let count = 1; count <= 3; count++) t.is((await one.add(network)).count, count);
  t.is((await other.add(network)).count, 4);
  t.is(one.known(network).count, 3);
  t.is((await one.add(network)).count, 5);
  t.is((await one.add('203.0.113.8')).count, 1, 'another network');
});

test.serial('a minute starts with its first event, and has a fixed end, however many events follow', async (t) => {
  const subject = createSubject();
  const { leftMs } = await subject.add(network);
  t.true(leftMs > 50_000 && leftMs <= 60_001, String(leftMs));
  await own.redis.pexpire(key, 20_000);
  const later = (await subject.add(network)).leftMs;
  t.true(later > 10_000 && later <= 20_001, String(later));
  subject.pass(later - 1);
  t.deepEqual(subject.known(network), { count: 2, leftMs: 1 });
  subject.pass(1);
  t.deepEqual(subject.known(network), { count: 0, leftMs: 0 });
});

test.serial('a count expires in Redis with its minute, even if its expiry was lost', async (t) => {
  const subject = createSubject();
  await subject.add(network);
  t.true((await own.redis.pttl(key)) > 50_000);
  await own.redis.persist(key);
  await subject.add(network);
  const leftMs = await own.redis.pttl(key);
  t.true(leftMs > 50_000 && leftMs <= 60_000);
});

test.serial('without Redis an ingress continues alone from the last known count', async (t) => {
  const away = connectForRequests('redis://127.0.0.1:1', recordedLog().log);
  t.teardown(() => away.disconnect());
  const alone = createSubject(away);
  for (let count = 1; count <= 3; count++) {
    t.deepEqual(await alone.add(network), { count, leftMs: 60_000 });
  }
  alone.pass(59_999);
  t.deepEqual(await alone.add(network), { count: 4, leftMs: 1 });
  alone.pass(1);
  t.deepEqual(await alone.add(network), { count: 1, leftMs: 60_000 });

  const subject = createSubject();
  await subject.add(network);
  const { leftMs } = await subject.add(network);
  await own.redis.set(key, 'no number', 'KEEPTTL');
  t.deepEqual(await subject.add(network), { count: 3, leftMs });
});

test.serial(
  'the number of cached networks is bounded; an evicted one is known again after its next event',
  async (t) => {
    const subject = createSubject();
    for (let count = 1; count <= 3; count++) await subject.add(network);
    const others = Array.from({ length: 10_000 }, (_, index) => subject.add(`2001:db8:0:${index.toString(16)}::/64`));
    await Promise.all(others);
    t.is(subject.known(network).count, 0);
    t.is((await subject.add(network)).count, 4);
  },
);
