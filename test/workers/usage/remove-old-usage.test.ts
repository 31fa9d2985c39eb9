import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { createRemoveOldUsage, firstMonthKept } from '../../../workers/usage/remove-old-usage.ts';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import { isExact } from '../../shared/store/usage-contract.ts';
import { usageRecords } from '../../shared/store/usage-records.ts';
import { openRedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';

test('the current month and the given number of closed months are kept', (t) => {
  const at = (time: string, monthsKept: number) => firstMonthKept(Date.parse(time), monthsKept);
  t.is(at('2026-12-31T23:59:59.999Z', 24), '2024-12');
  t.is(at('2027-01-01T00:00:00.000Z', 24), '2025-01');
  t.is(at('2027-01-31T12:00:00.000Z', 1), '2026-12');
  t.is(at('2026-03-31T12:00:00.000Z', 1), '2026-02');
  t.is(at('2026-12-15T12:00:00.000Z', 12), '2025-12');
});

test('nothing is removed while the clocks of Redis and of this machine are a day apart', async (t) => {
  await using own = await openRedisDatabase();
  const { log, lines } = recordedLog();
  const fails = async () => t.fail() as never;
  const store = { removeUsageBefore: fails, removeOldHours: fails };
  const now = () => Date.now() - 2 * 86_400_000;
  await createRemoveOldUsage({ redis: own.redis, store, monthsKept: () => 1, log, now })(new AbortController().signal);
  t.is(lines.length, 1);
});

test('all older months are removed by the clock of Redis, and nothing else', async (t) => {
  await using own = await openRedisDatabase();
  await using home = await createSqliteHome();
  await using store = await home.open();
  const [seconds] = await own.redis.time();
  const now = Number(seconds) * 1_000;
  const months = [-3, -2, -1, 0].map((back) => new Date(`${firstMonthKept(now, -back)}-15T00:00:00Z`));
  const records = usageRecords(1_200, (index) => ({ admittedAt: months[index % 4] ?? new Date(0) }));
  await store.usage.recordUsage(records);

  const { log, lines } = recordedLog();
  const remove = createRemoveOldUsage({ redis: own.redis, store: store.usage, monthsKept: () => 1, log });
  await remove(AbortSignal.abort());
  await isExact(t, store, records);
  await remove(new AbortController().signal);
  const kept = records.filter((_, index) => index % 4 >= 2);
  await isExact(t, store, kept);
  t.is((await store.usage.listUsageMonths({ limit: 10 })).length, 2);
  t.deepEqual(
    lines.map(({ fields }) => fields),
    [{ before: firstMonthKept(now, 1), removed: 604 }],
  );
});

test('the pause after each piece follows its duration, so that the store has time for other work', async (t) => {
  await using own = await openRedisDatabase();
  const { log, lines } = recordedLog();
  const busyMs = [20, 60, 0];
  const store = {
    async removeUsageBefore() {
      const ms = busyMs.shift() ?? 0;
      await sleep(ms);
      return busyMs.length === 0 ? 0 : 10;
    },
    removeOldHours: async () => 0,
  };
  const pauses: number[] = [];
  const pause = async (ms: number) => void pauses.push(ms);
  await createRemoveOldUsage({ redis: own.redis, store, monthsKept: () => 1, log, pause })(
    new AbortController().signal,
  );
  const [short = 0, long = 0] = pauses;
  t.is(pauses.length, 4);
  t.true(short >= 4 * 19 && long >= 4 * 59, `${pauses}`);
  t.like(lines, [{ fields: { removed: 20 } }]);

  const stopping = new AbortController();
  let pieces = 0;
  const endless = {
    async removeUsageBefore() {
      pieces += 1;
      stopping.abort();
      return 10;
    },
    removeOldHours: async () => t.fail() as never,
  };
  await createRemoveOldUsage({ redis: own.redis, store: endless, monthsKept: () => 1, log })(stopping.signal);
  t.is(pieces, 1, 'it ends at once, also within a pause');
});
