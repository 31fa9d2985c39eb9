import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { createSeed } from '../../shared/limits/seed.ts';
import { redisUnavailable } from '../../shared/redis/connections.ts';
import type { Store } from '../../shared/store/store.ts';
import type { UsageMonth } from '../../shared/store/usage/usage-sums.ts';
import { redisNow } from '../redis-now.ts';
import { firstMonthKept } from '../usage/remove-old-months.ts';
import { createCheckMonth } from './check-month.ts';
import { driftOf, type MonthCheck, sumDiffers } from './reconcile-drift.ts';
import type { Patiently } from './reconcile-patience.ts';

export type ReconcileStore = Pick<
  Store,
  'findAccount' | 'recomputeUsage' | 'repairUsage' | 'listUsageMonths' | 'findUsageSum'
>;

/** What differed, and what still does after a repair. */
export type Drifted = { found: MonthCheck; left: MonthCheck | undefined };

/** A record that came before its time is repaired by its drainer within milliseconds; these are over three seconds in all. */
const pausesMs = [50, 100, 200, 400, 800, 1_600];
const repairAttemptsMax = 50;
const repairPauseMs = 20;
/** Redis may begin to count a month from its sum while that is repaired. */
const repairsMax = 2;

/** Compares an account's month, and repairs it where it is asked to; undefined where nothing differs. */
export function createReconcileMonth(deps: {
  redis: Redis;
  store: ReconcileStore;
  monthsKept: number;
  repair: boolean;
  patiently: Patiently;
  signal: AbortSignal;
}): (month: UsageMonth) => Promise<Drifted | undefined> {
  const { redis, store, monthsKept, repair, patiently, signal } = deps;
  const seed = createSeed({ redis, store });
  const checkMonth = createCheckMonth({ redis, store, seed });

  /** Undefined where nothing differs, or where the month has become one of those that are removed. */
  async function findDrift(month: UsageMonth): Promise<MonthCheck | undefined> {
    for (let looks = 0; ; looks += 1) {
      const look = await patiently(() => checkMonth(month));
      if (driftOf(look) === undefined) return undefined;
      const first = firstMonthKept(await patiently(() => redisUnavailable(redisNow(redis))), monthsKept);
      if (month.month < first) return undefined;
      const pauseMs = pausesMs[looks];
      if (pauseMs === undefined) return look;
      await sleep(pauseMs, undefined, { signal });
    }
  }

  /** The sum first, as it is what Redis's counter rests on. */
  async function repairMonth(found: MonthCheck): Promise<void> {
    const { account, month, counter } = found;
    if (sumDiffers(found)) await repairSum(found);
    if (counter !== undefined && (await isKnown(account))) await patiently(() => seed(account, month, 'replace'));
  }

  /** Whose tokens Redis counts has an account; where the store has none, it is another store or an empty one. */
  async function isKnown(account: string): Promise<boolean> {
    return (await patiently(() => store.findAccount(account))) !== undefined;
  }

  /** While the sum moves, a repair of what it was writes nothing; what is left then is found by the next look. */
  async function repairSum({ account, month, recomputed }: MonthCheck): Promise<void> {
    const repairUsage = () => store.repairUsage(account, month, recomputed?.lastEntry ?? '');
    for (let attempt = 1; attempt <= repairAttemptsMax; attempt += 1) {
      if (await patiently(repairUsage)) return;
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
