import { setTimeout as sleep } from 'node:timers/promises';
import { createSeed } from '../../shared/limits/seed.ts';
import { type Redis, redisUnavailable } from '../../shared/redis/connections.ts';
import { redisNow } from '../../shared/redis/redis-now.ts';
import type { Store } from '../../shared/store/store.ts';
import type { UsageMonth } from '../../shared/store/usage/usage-sums.ts';
import { createCheckMonth } from './check-month.ts';
import { driftOf, type MonthCheck, usageDiffers } from './reconcile-drift.ts';
import { firstMonthKept } from './remove-old-months.ts';
import type { RetryUnavailable } from './retry-unavailable.ts';

export type ReconcileStore = Pick<Store, 'accounts' | 'usage'>;

/** What differed, and what still differs after a repair. */
export type Drift = { found: MonthCheck; left: MonthCheck | undefined };

/** A record that reached the store early is repaired by its drainer within milliseconds. These pauses take over three seconds in total. */
const pausesMs = [50, 100, 200, 400, 800, 1_600];
const repairAttemptsMax = 50;
const repairPauseMs = 20;
/** Redis may start to count a month from its sum while the sum is repaired. */
const repairsMax = 2;

/** Compares an account's month, and repairs it if `repair` is set. Undefined if nothing differs. */
export function createReconcileMonth(deps: {
  redis: Redis;
  store: ReconcileStore;
  monthsKept: number;
  repair: boolean;
  retryUnavailable: RetryUnavailable;
  signal: AbortSignal;
}): (month: UsageMonth) => Promise<Drift | undefined> {
  const { redis, store, monthsKept, repair, retryUnavailable, signal } = deps;
  const seed = createSeed({ redis, store: store.usage });
  const checkMonth = createCheckMonth({ redis, store: store.usage, seed });

  /** Undefined if nothing differs, or if the month is being removed by now. */
  async function findDrift(month: UsageMonth): Promise<MonthCheck | undefined> {
    for (let checks = 0; ; checks += 1) {
      const checked = await retryUnavailable(() => checkMonth(month));
      if (driftOf(checked) === undefined) return undefined;
      const first = firstMonthKept(await retryUnavailable(() => redisUnavailable(redisNow(redis))), monthsKept);
      if (month.month < first) return undefined;
      const pauseMs = pausesMs[checks];
      if (pauseMs === undefined) return checked;
      await sleep(pauseMs, undefined, { signal });
    }
  }

  /** The sum first, because Redis's counter is based on it. */
  async function repairMonth(found: MonthCheck): Promise<void> {
    const { account, month, counter } = found;
    if (usageDiffers(found)) await repairSum(found);
    if (counter !== undefined && (await isKnown(account)))
      await retryUnavailable(() => seed({ account }, month, 'replace'));
  }

  /** Every caller that Redis counts has an account. If the store does not have it, this is the wrong store or an empty one. */
  async function isKnown(account: string): Promise<boolean> {
    return (await retryUnavailable(() => store.accounts.findAccount(account))) !== undefined;
  }

  /** While the sum changes, a repair of its old value writes nothing. The next check finds what is left. */
  async function repairSum({ account, month, recomputed }: MonthCheck): Promise<void> {
    const repairUsage = () => store.usage.repairUsage(account, month, recomputed?.lastEntry ?? '');
    for (let attempt = 1; attempt <= repairAttemptsMax; attempt += 1) {
      if (await retryUnavailable(repairUsage)) return;
      await sleep(Math.random() * repairPauseMs, undefined, { signal });
    }
  }

  return async function reconcileMonth(month) {
    const found = await findDrift(month);
    if (found === undefined) return undefined;
    let left: MonthCheck | undefined = found;
    for (let repairs = 1; repair && left !== undefined && repairs <= repairsMax; repairs += 1) {
      await repairMonth(left);
      left = await findDrift(month);
    }
    return { found, left };
  };
}
