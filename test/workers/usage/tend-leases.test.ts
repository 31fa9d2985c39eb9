import test from 'ava';
import { Registry } from 'prom-client';
import { createEndLeases } from '../../../shared/limits/end-leases.ts';
import { leaseHoldersKey, partitionOf } from '../../../shared/redis-keys.ts';
import { createWorkerMetrics } from '../../../workers/metrics.ts';
import { countLeases, createTendLeases } from '../../../workers/usage/tend-leases.ts';
import { openLimits, timeouts } from '../../support/limits-side.ts';
import { type PrivateRedis, startPrivateRedis } from '../../support/private-redis.ts';
import { replaceClock } from '../../support/redis-clock.ts';

const now = Date.UTC(2030, 4, 15, 12);

let own: PrivateRedis;
let setTime: (nowMs: number) => Promise<void>;

test.before(async () => {
  own = await startPrivateRedis();
  setTime = replaceClock(own.redis);
});

test.after.always(() => own?.[Symbol.asyncDispose]());

/** Accounts of one partition, each with a request that was admitted at `now`. */
async function openPartition(accounts: number) {
  await own.redis.flushall();
  await setTime(now);
  const partition = partitionOf('user:0');
  const sides: ReturnType<typeof openLimits>[] = [];
  for (let index = 0; sides.length < accounts; index++) {
    if (partitionOf(`user:${index}`) === partition) sides.push(openLimits(own.redis, { account: `user:${index}` }));
  }
  for (const side of sides) {
    await side.prepare('2030-05');
    await side.admit({ requestId: 'a' });
  }
  const registry = new Registry();
  const tendLeases = createTendLeases({
    redis: own.redis,
    endLeases: createEndLeases(own.redis, timeouts),
    timeouts,
    metrics: createWorkerMetrics(registry),
    now: async () => Number((await own.redis.lrange('test:clock', 0, 0))[0]) * 1_000,
  });
  return { sides, tend: () => tendLeases(partition), held: () => countLeases(own.redis, [partition]), registry };
}

test.serial('what is past its time ends in all accounts of the partition, however many, and is counted', async (t) => {
  const { sides, tend, held, registry } = await openPartition(120);
  await setTime(now + 59_000);
  await tend();
  t.is(await held(), 120);
  await setTime(now + 60_000);
  await tend();
  t.is(await held(), 0);
  t.is(await own.redis.exists(leaseHoldersKey(partitionOf('user:0'))), 0);
  for (const side of sides) t.like(await side.standing(), { used: 0, reserved: 0 });
  t.regex(await registry.metrics(), /^svc_leases_expired_total 120$/m);
});

test.serial('leases of a clock that was put back far are found, although their time seems long to come', async (t) => {
  const { tend, held } = await openPartition(3);
  await setTime(now - 86_400_000);
  await tend();
  t.is(await held(), 3, 'they may be of requests that run');
  await setTime(now - 86_400_000 + 660_000);
  await tend();
  t.is(await held(), 0);
});

test.serial('while Redis does not answer, nobody waits to hear how many leases are held', async (t) => {
  const away = own.connect();
  away.disconnect();
  t.is(await countLeases(away, [0]), undefined);
});
