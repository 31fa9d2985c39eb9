import test from 'ava';
import { Registry } from 'prom-client';
import { createAdmit } from '../../../shared/limits/admit.ts';
import { leaseHoldersKey, partitionOf } from '../../../shared/redis/keys.ts';
import { createWorkerMetrics } from '../../../workers/metrics.ts';
import { countLeases, createEndLeases, createExpireLeases } from '../../../workers/requests/expire-leases.ts';
import { createStartRun } from '../../../workers/requests/start-run.ts';
import { lostReport, openLimits, timeouts } from '../../support/limits-side.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { replaceClock } from '../../support/redis-clock.ts';

const now = Date.UTC(2030, 4, 15, 12);

let own: RedisDatabase;
let setTime: (nowMs: number) => Promise<void>;

test.before(async () => {
  own = await openRedisDatabase();
  setTime = replaceClock(own.redis);
});

test.after.always(() => own?.[Symbol.asyncDispose]());

async function timeNow(): Promise<number> {
  const [seconds, microseconds] = await own.redis.lrange('test:clock', 0, 1);
  return Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
}

/** Accounts of one partition, each with a request admitted at `now`. */
async function openPartition(accounts: number) {
  await own.redis.flushdb();
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
  const metrics = createWorkerMetrics(registry);
  const open = () =>
    createExpireLeases({
      redis: own.redis,
      endLeases: createEndLeases(own.redis, { requestMs: () => timeouts.requestMs }),
      requestMs: () => timeouts.requestMs,
      metrics,
      now: timeNow,
    });
  const expireLeases = open();
  return {
    sides,
    expire: () => expireLeases(partition),
    fresh: () => open()(partition),
    held: () => countLeases(own.redis, [partition]),
    registry,
  };
}

/** Checks as often as a worker does, until this time. */
async function expireUntil(time: number, { expire, from = now }: { expire: () => Promise<unknown>; from?: number }) {
  for (let at = from; at < time; at += 20_000) {
    await setTime(at);
    await expire();
  }
  await setTime(time);
  return expire();
}

test.serial(
  'leases past their time expire in all accounts of the partition, however many there are, and are counted',
  async (t) => {
    const { sides, expire, held, registry } = await openPartition(120);
    await expireUntil(now + 59_999, { expire });
    t.is(await held(), 120);
    await setTime(now + 60_000);
    await expire();
    t.is(await held(), 0);
    await expireUntil(now + 120_000, { expire, from: now + 60_000 });
    t.is(await own.redis.exists(leaseHoldersKey(partitionOf('user:0'))), 0);
    for (const side of sides) t.like(await side.counters(), { chargedTokens: 0, reservedTokens: 0 });
    t.regex(await registry.metrics(), /^svc_leases_expired_total 120$/m);
  },
);

test.serial('no lease expires for a minute after Redis was unavailable', async (t) => {
  const { sides, expire, held } = await openPartition(2);
  const [side] = sides;
  for (const each of sides) await each.start('a');
  await expire();
  const back = now + 300_000;
  await setTime(back);
  t.deepEqual(await expire(), { ended: 0, nextMs: 60_000 });
  await expireUntil(back + 59_999, { expire, from: back });
  t.is(await held(), 2);
  await setTime(back + 60_000);
  t.like(await expire(), { ended: 2 });
  t.false(await side?.settle('a'));
});

test.serial('a renewal in that minute counts from its own time', async (t) => {
  const { sides, expire, held } = await openPartition(1);
  const [side] = sides;
  await side?.start('a');
  await expire();
  const back = now + 300_000;
  await expireUntil(back + 10_000, { expire, from: back });
  await side?.renew('a');
  await expireUntil(back + 69_999, { expire, from: back + 20_000 });
  t.is(await held(), 1);
  await setTime(back + 70_000);
  await expire();
  t.is(await held(), 0);
});

test.serial(
  'leases of a clock that was set far back are found, although their time is far in the future',
  async (t) => {
    const { expire, held } = await openPartition(3);
    const back = now - 86_400_000;
    await expireUntil(back + 659_999, { expire, from: back });
    t.is(await held(), 3, 'they may belong to running requests');
    await setTime(back + 660_000);
    await expire();
    t.is(await held(), 0);
  },
);

test.serial('leases of an account in both lanes expire, each at its time', async (t) => {
  const { sides, expire, fresh, held } = await openPartition(1);
  const [side] = sides;
  if (side === undefined) return t.fail();
  const admit = createAdmit(own.redis, { timeouts: () => timeouts, outboxLengthMax: 1_000 });
  const line = { account: side.account, requestId: 'line', lane: 'batch' as const };
  const charge = { allowance: { overageEnabled: false }, reservedTokens: 100, report: lostReport };
  t.like(await admit.admit({ ...line, version: 1 }, charge), { outcome: 'admitted' });
  await createStartRun(own.redis)({ ...line, taken: 1 });
  await side.start('a');
  t.is(await held(), 2);
  await expireUntil(now + 59_999, { expire });
  t.is(await held(), 2);
  await setTime(now + 60_000);
  await expire();
  t.is(await held(), 1);
  // Without a cluster, a worker that has just started has seen no gap, so leases expire at once.
  const lineEndsAt = now + timeouts.requestMs + 86_400_000;
  await setTime(lineEndsAt - 1);
  await fresh();
  t.is(await held(), 1);
  await setTime(lineEndsAt);
  await fresh();
  t.is(await held(), 0);
});

test.serial('while Redis does not answer, counting leases does not wait', async (t) => {
  const away = own.connect();
  away.disconnect();
  t.is(await countLeases(away, [0]), undefined);
});
