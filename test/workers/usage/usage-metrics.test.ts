import test from 'ava';
import { Redis } from 'ioredis';
import { Registry } from 'prom-client';
import { createWorkerMetrics } from '../../../workers/metrics.ts';
import { createMarkDrained } from '../../../workers/usage/outbox.ts';
import { createObserveOutboxes } from '../../../workers/usage/usage-metrics.ts';
import { openRedisDatabase } from '../../support/private-redis.ts';
import { accountOf, appendUsage } from '../../support/usage-events.ts';

test('reports the entries in the outboxes that a worker holds, and the age of the oldest undrained entry', async (t) => {
  await using own = await openRedisDatabase();
  await own.redis.ping();
  let held = [3, 63];
  const observe = createObserveOutboxes(own.redis, () => held);
  t.deepEqual(await observe(), { entries: 0, longest: 0, ageSeconds: 0 });

  const now = Number((await own.redis.time())[0]) * 1_000;
  for (const [partition, ageMs] of [
    [3, 100_000],
    [3, 40_000],
    [63, 70_000],
    [4, 300_000],
  ] as const) {
    await appendUsage(own.redis, { account: accountOf(partition) }, `${now - ageMs}-0`);
  }
  const all = await observe();
  t.like(all, { entries: 3, longest: 2 });
  t.true((all?.ageSeconds ?? 0) >= 100 && (all?.ageSeconds ?? 0) < 160);

  await createMarkDrained(own.redis)(3, `${now - 100_000}-0`);
  const next = await observe();
  t.like(next, { entries: 3, longest: 2 });
  t.true((next?.ageSeconds ?? 0) >= 70 && (next?.ageSeconds ?? 0) < 100);
  await createMarkDrained(own.redis)(3, `${now - 40_000}-0`);
  await createMarkDrained(own.redis)(63, `${now - 70_000}-0`);
  t.deepEqual(await observe(), { entries: 3, longest: 2, ageSeconds: 0 });

  held = [];
  t.deepEqual(await observe(), { entries: 0, longest: 0, ageSeconds: 0 });
});

test('a scrape reports the totals, and nothing while they are unknown', async (t) => {
  const registry = new Registry();
  let looks = 0;
  let counters: { entries: number; longest: number; ageSeconds: number } | undefined = {
    entries: 7,
    longest: 5,
    ageSeconds: 1.5,
  };
  createWorkerMetrics(registry).observeOutboxes(async () => {
    looks += 1;
    return counters;
  });
  const lines = async () =>
    (await registry.metrics()).split('\n').filter((line) => line.startsWith('svc_usage_outbox'));
  t.deepEqual(await lines(), [
    'svc_usage_outbox_entries 7',
    'svc_usage_outbox_entries_longest 5',
    'svc_usage_outbox_age_seconds 1.5',
  ]);
  counters = undefined;
  t.deepEqual(await lines(), [], 'unknown is not 0');
  t.is(looks, 6);
});

test('concurrent callers share one read, and none waits while Redis is unavailable', async (t) => {
  await using own = await openRedisDatabase();
  await own.redis.ping();
  const observe = createObserveOutboxes(own.redis, () => [1, 2]);
  const [first, ...others] = await Promise.all([observe(), observe(), observe()]);
  t.like(first, { entries: 0 });
  for (const other of others) t.is(other, first);

  const away = new Redis({ lazyConnect: true });
  t.teardown(() => away.disconnect());
  t.is(await createObserveOutboxes(away, () => [1])(), undefined);
});
