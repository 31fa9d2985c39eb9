import test from 'ava';
import { Registry } from 'prom-client';
import type { Claim } from '../../../shared/jobs/idempotency.ts';
import { keptBytesKey, keptBytesKeyOf, keptRoomKeyOf, partitionOf } from '../../../shared/redis/keys.ts';
import { createKeptMetrics, createShareKeptRoom, type KeptTotals } from '../../../workers/upkeep/share-kept-room.ts';
import { openLimits } from '../../support/limits-side.ts';
import { type PrivateRedis, startPrivateRedis } from '../../support/private-redis.ts';

const mebibyte = 1_048_576;
const minuteMs = 60_000;
const claim: Claim = { idempotencyKey: 'order 17', bodyMarks: ['mark'], isStream: false };

let own: PrivateRedis;
test.before(async () => {
  own = await startPrivateRedis();
  await own.redis.config('SET', 'maxmemory', '64mb');
});
test.beforeEach(() => own.redis.flushdb());
test.after.always(() => own?.[Symbol.asyncDispose]());

function createSubject() {
  let now = 0;
  const reported: KeptTotals[] = [];
  const share = createShareKeptRoom({ redis: own.redis, report: (totals) => reported.push(totals), now: () => now });
  return {
    share,
    last: () => reported.at(-1),
    later(ms: number): void {
      now += ms;
    },
  };
}

const rooms = (kind: 'user' | 'device') =>
  Promise.all([0, 17, 63].map((partition) => own.redis.get(keptRoomKeyOf(partition, kind))));
const keep = (partition: number, kind: 'user' | 'device', bytes: number, inMinutes = 5) =>
  own.redis.hset(keptBytesKeyOf(partition, kind), Math.floor(Date.now() / minuteMs) + inMinutes, bytes);

test.serial(
  'each partition gets what all others leave of a quarter of the memory, and devices a quarter of that',
  async (t) => {
    const { share, last } = createSubject();
    await keep(3, 'user', 7 * mebibyte);
    await keep(40, 'user', 2 * mebibyte);
    await keep(40, 'device', mebibyte);
    await share();
    const totals = {
      used: { user: 9 * mebibyte, device: mebibyte },
      max: { user: 16 * mebibyte, device: 4 * mebibyte },
    };
    t.deepEqual(last(), totals);
    t.deepEqual(await rooms('user'), Array(3).fill(String(6 * mebibyte)));
    t.deepEqual(await rooms('device'), Array(3).fill(String(3 * mebibyte)));
    t.true((await own.redis.pttl(keptRoomKeyOf(5, 'user'))) > 50_000);

    await keep(3, 'user', 20 * mebibyte);
    await share();
    t.deepEqual([...(await rooms('user')), ...(await rooms('device'))], Array(6).fill('0'), 'more than all is used');
  },
);

test.serial('many devices take no room from accounts', async (t) => {
  const { share } = createSubject();
  await keep(8, 'device', 5 * mebibyte);
  await share();
  t.deepEqual(await rooms('device'), Array(3).fill('0'));
  t.deepEqual(await rooms('user'), Array(3).fill(String(11 * mebibyte)));
});

test.serial('while less than half is used there is no bound, and one that was written is removed', async (t) => {
  const { share } = createSubject();
  await keep(3, 'user', 9 * mebibyte);
  await share();
  t.deepEqual(await rooms('user'), Array(3).fill(String(7 * mebibyte)));
  await keep(3, 'user', 7 * mebibyte);
  await share();
  t.deepEqual([...(await rooms('user')), ...(await rooms('device'))], Array(6).fill(null));
});

test.serial('a worker that begins to sum removes a bound that another one has written', async (t) => {
  const [first, second] = [createSubject(), createSubject()];
  await keep(3, 'user', 9 * mebibyte);
  await first.share();
  await keep(3, 'user', 1_000);
  await second.share();
  t.deepEqual([...(await rooms('user')), ...(await rooms('device'))], Array(6).fill(null));

  await keep(3, 'user', 9 * mebibyte);
  await first.share();
  await keep(3, 'user', 1_000);
  second.later(5_001);
  await second.share();
  t.deepEqual(await rooms('user'), Array(3).fill(null), 'also one that has summed before');
});

test.serial('what should have expired counts no more, and is removed', async (t) => {
  const { share, last } = createSubject();
  await keep(3, 'user', 7 * mebibyte, -1);
  await keep(3, 'user', 1_000, 0);
  await keep(9, 'user', 5_000, -60);
  await share();
  t.like(last(), { used: { user: 1_000, device: 0 } });
  t.is(await own.redis.hlen(keptBytesKeyOf(3, 'user')), 1);
  t.is(await own.redis.exists(keptBytesKeyOf(9, 'user')), 0);
});

test.serial('what admission reserves and settlement keeps is summed, and the room bounds admission', async (t) => {
  const { share, last } = createSubject();
  const side = openLimits(own.redis, { account: 'user:alice' });
  await side.prepare(new Date().toISOString().slice(0, 7));
  await side.admit({ requestId: 'a', claim });
  await share();
  t.like(last(), { used: { user: mebibyte } });
  await side.start('a');
  await side.settle('a', { claim: { idempotencyKey: 'order 17', bodyMark: 'mark', end: 'lost' } });
  await share();
  t.like(last(), { used: { user: 1_024 } });

  await keep((partitionOf('user:alice') + 1) % 64, 'user', 16 * mebibyte - 2_048);
  await share();
  const asked = { requestId: 'b', claim: { ...claim, idempotencyKey: 'order 18' } };
  t.like(await side.admit(asked), { outcome: 'admitted', bytesReserved: 1_024 });
});

test.serial('the memory of Redis is read again', async (t) => {
  const { share, last, later } = createSubject();
  await share();
  await own.redis.config('SET', 'maxmemory', '128mb');
  t.teardown(() => own.redis.config('SET', 'maxmemory', '64mb'));
  later(9_999);
  await share();
  t.like(last(), { max: { user: 16 * mebibyte } });
  later(1);
  await share();
  t.like(last(), { max: { user: 32 * mebibyte } });
});

test.serial('while nothing is kept it costs one command', async (t) => {
  const { share } = createSubject();
  await share();
  await own.redis.config('RESETSTAT');
  await share();
  const calls = (await own.redis.info('commandstats')).matchAll(/^cmdstat_(?!config|info)([^:]+):calls=(\d+)/gm);
  t.deepEqual(
    [...calls].map(([, command, count]) => [command, count]),
    [['exists', '1']],
  );
  t.is(await own.redis.exists(keptBytesKey('user:alice')), 0);
});

test.serial('a worker that has summed reports it', async (t) => {
  const registry = new Registry();
  const { reportKept } = createKeptMetrics(registry);
  t.notRegex(await registry.metrics(), /^svc_kept_answer_bytes/m, 'another worker may report it');
  reportKept({ used: { user: 5, device: 6 }, max: { user: 7, device: 8 } });
  const text = await registry.metrics();
  for (const line of [
    '{accounts="user"} 5',
    '{accounts="device"} 6',
    '_max{accounts="user"} 7',
    '_max{accounts="device"} 8',
  ])
    t.true(text.includes(`svc_kept_answer_bytes${line}`), text);
});
