import { Registry } from 'prom-client';
import { changeSettings } from '../../../shared/account-changes/change-settings.ts';
import { createSeed } from '../../../shared/limits/seed.ts';
import { type Redis, redisNow } from '../../../shared/redis/connections.ts';
import { partitionCount, partitionOf } from '../../../shared/redis/keys.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { createWorkerMetrics } from '../../../workers/metrics.ts';
import { createDrainPartition } from '../../../workers/usage/drain-partition.ts';
import { createReconcileUsage } from '../../../workers/usage/reconcile-usage.ts';
import { firstMonthKept } from '../../../workers/usage/remove-old-usage.ts';
import { openLimits } from '../../support/limits-side.ts';
import { recordedLog } from '../../support/recorded-log.ts';

export const monthsKept = 3;

/** Accounts that use the service, drainers and `reconcile`, with the same Redis and store. */
export function openReconcileSide(redis: Redis, store: Store) {
  const seed = createSeed({ redis, store: store.usage });
  const { log } = recordedLog();
  const drainPartition = createDrainPartition({
    redis,
    store: store.usage,
    metrics: createWorkerMetrics(new Registry()),
    log,
  });

  /** `YYYY-MM`, the given number of months before the current one. */
  const monthsAgo = async (months: number) => firstMonthKept(await redisNow(redis), months);

  return {
    monthsAgo,
    /** Counts the current and the last month from the store and the outbox. */
    async openAccount(account: string) {
      const side = openLimits(redis, { account });
      const unknown = { id: account, plan: 'free' };
      const settings = { overageEnabled: true };
      await store.accounts.changeAccount(account, changeSettings({ settings, at: new Date(), by: 'a test', unknown }));
      await side.prepare(await monthsAgo(0));
      const count = async () => {
        for (const months of [1, 0]) await seed({ account }, await monthsAgo(months));
      };
      await count();
      return {
        ...side,
        account,
        count,
        async use(name: string, { tokens = 10, overage = false } = {}) {
          const allowance = overage ? { tokensPerMonth: 0, overageEnabled: true } : {};
          const { outcome } = await side.admit({ requestId: name, tokens: 100, allowance });
          if (outcome !== 'admitted') throw new Error(`not admitted but ${outcome}`);
          await side.start(name);
          if (!(await side.settle(name, { tokens, overage }))) throw new Error('not settled');
        },
        /** A request of a past month whose lease Redis has lost; `months` before the current one. */
        async useBefore(name: string, months: number, { tokens = 10 } = {}) {
          const admittedAt = Date.parse(`${await monthsAgo(months)}-15T12:00:00Z`);
          if (!(await side.settle(name, { tokens, admittedAt }))) throw new Error('not settled');
        },
      };
    },
    async drain(accounts?: readonly string[]) {
      const all = Array.from({ length: partitionCount }, (_, partition) => partition);
      for (const partition of accounts?.map(partitionOf) ?? all) while ((await drainPartition(partition)).more);
    },
    reconcile: ({ repair = false, unavailableMsMax = 5_000, signal = new AbortController().signal } = {}) =>
      createReconcileUsage({ redis, store, monthsKept, repair, unavailableMsMax, signal }).run(),
  };
}
