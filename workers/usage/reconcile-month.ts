import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { ApiError } from '../../shared/errors.ts';
import { entryOf } from '../../shared/jobs/usage-outbox.ts';
import { createSeed, type MonthTokens, type Seed } from '../../shared/limits/seed.ts';
import { type Redis, redisNow, redisUnavailable } from '../../shared/redis/connections.ts';
import { countersKey, outboxKey, outboxMarksKey, partitionOf } from '../../shared/redis/keys.ts';
import type { Store } from '../../shared/store/records/store.ts';
import type { UsageMonth, UsageSum } from '../../shared/store/usage/usage-record.ts';
import type { UsageStore } from '../../shared/store/usage/usage-store.ts';
import { firstMonthKept } from './remove-old-usage.ts';

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

  /** Undefined if nothing differs, or if the month is being removed by now. */
  async function findDrift(month: UsageMonth): Promise<MonthCheck | undefined> {
    for (let checks = 0; ; checks += 1) {
      const checked = await retryUnavailable(() => checkMonth({ redis, store: store.usage, seed }, month));
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

/**
 * Reads an account's month in the store and, if Redis counts it, in Redis. The result is also correct while requests are settled and
 * drained, except for a record that reached the store early and is about to be repaired: the next check no longer finds it. Fails with
 * `SERVICE_UNAVAILABLE`.
 */
export async function checkMonth(
  { redis, store, seed }: { redis: Redis; store: Pick<UsageStore, 'recomputeUsage'>; seed: Seed },
  { account, month }: UsageMonth,
): Promise<MonthCheck> {
  const upTo = await summedUpTo(redis, partitionOf(account));
  const sums = await store.recomputeUsage(account, month, upTo);
  const isCounted = (await findCountedMonths(redis, account)).includes(month);
  const seeded = isCounted ? await seed({ account }, month, 'compare') : undefined;
  if (seeded?.before === undefined) return { account, month, ...sums, counter: undefined };
  const { chargedTokens, reservedTokens, overageTokens } = seeded.after;
  const missing = missingInSum(sums);
  const expected = {
    chargedTokens: chargedTokens + missing.chargedTokens,
    reservedTokens,
    overageTokens: overageTokens + missing.overageTokens,
  };
  return { account, month, ...sums, counter: { counted: seeded.before, expected } };
}

/** Returns which of the current and the last month Redis counts. Counters of older months are not used. */
export async function findCountedMonths(redis: Redis, account: string): Promise<string[]> {
  const months = await findRecentMonths(redis, countersKey(account));
  const fields = months.map((month) => `${month}:chargedTokens`);
  const counted = await redisUnavailable(redis.hmget(countersKey(account), ...fields));
  return months.filter((_, index) => counted[index] !== null);
}

/** The last and the current month by Redis's clock, in this order. */
export async function findRecentMonths(redis: Redis, key?: string): Promise<[string, string]> {
  const now = await redisUnavailable(redisNow(redis, key));
  return [firstMonthKept(now, 1), firstMonthKept(now, 0)];
}

/**
 * Returns the entry of a partition up to which every record in the store must be in its sum, and no further record comes: the `drained`
 * mark of the outbox, or a later position before the first waiting entry and before now. Records after it can only be from a Redis that
 * has lost its data since. Fails with `SERVICE_UNAVAILABLE`.
 */
export async function summedUpTo(redis: Redis, partition: number): Promise<string> {
  // In this order: entries that are appended after the first read come after `now`, and entries drained meanwhile do no harm.
  const now = await redisUnavailable(redisNow(redis, outboxKey(partition)));
  const drained = (await redisUnavailable(redis.hget(outboxMarksKey(partition), 'drained'))) ?? '0-0';
  const waiting = await redisUnavailable(redis.xrange(outboxKey(partition), `(${drained}`, '+', 'COUNT', 1));
  const [earliest = ''] = [`${now}-0`, ...waiting.map(([id]) => id)].map(entryBefore).sort();
  const drainedEntry = entryOf(drained);
  return earliest > drainedEntry ? earliest : drainedEntry;
}

const sequenceMax = 9_999_999_999; // the highest that an entry can hold

/** Returns the last possible entry before this id. */
export function entryBefore(streamId: string): string {
  const [milliseconds = 0, sequence = 0] = streamId.split('-').map(Number);
  return entryOf(sequence > 0 ? `${milliseconds}-${sequence - 1}` : `${milliseconds - 1}-${sequenceMax}`);
}

/**
 * The result of a check of an account's month. `kept`: the sum in the store. `recomputed`: the sum of its records. `wrongDetails`: how many
 * details do not match their records. `counter`: defined if Redis counts the month; `expected` follows from the records and from what waits
 * in the outbox.
 */
export type MonthCheck = UsageMonth & {
  kept: UsageSum | undefined;
  recomputed: UsageSum | undefined;
  wrongDetails: number;
  counter: { counted: MonthTokens; expected: MonthTokens } | undefined;
};

/** The difference in charged tokens; 0 if only other numbers differ. Undefined if nothing differs. */
export function driftOf(checked: MonthCheck): { tokens: number } | undefined {
  const { counter } = checked;
  if (!usageDiffers(checked) && isDeepStrictEqual(counter?.counted, counter?.expected)) return undefined;
  const inCounter =
    counter === undefined ? 0 : Math.abs(counter.counted.chargedTokens - counter.expected.chargedTokens);
  // Not added up: usually Redis continues from a sum that was already wrong.
  return { tokens: Math.max(Math.abs(missingInSum(checked).chargedTokens), inCounter) };
}

/** Whether the sum or a detail differs from the records. */
function usageDiffers(checked: Pick<MonthCheck, 'kept' | 'recomputed' | 'wrongDetails'>): boolean {
  return sumDiffers(checked) || checked.wrongDetails > 0;
}

export function sumDiffers({ kept, recomputed }: Pick<MonthCheck, 'kept' | 'recomputed'>): boolean {
  return !isDeepStrictEqual(kept?.total, recomputed?.total);
}

/** Tokens that the records have and the sum does not; negative if the sum has too many. */
function missingInSum({ kept, recomputed }: Pick<MonthCheck, 'kept' | 'recomputed'>): {
  chargedTokens: number;
  overageTokens: number;
} {
  return {
    chargedTokens: (recomputed?.total.chargedTokens ?? 0) - (kept?.total.chargedTokens ?? 0),
    overageTokens: (recomputed?.total.overageTokens ?? 0) - (kept?.total.overageTokens ?? 0),
  };
}

/** Repeats work that fails because the store or Redis is unavailable, up to a time limit. Then it fails with the same error. */
export type RetryUnavailable = <T>(work: () => Promise<T>) => Promise<T>;

const pauseMs = 250;

/** No further attempt begins once `signal` is aborted. */
export function createRetryUnavailable({
  unavailableMsMax,
  signal,
}: {
  unavailableMsMax: number;
  signal: AbortSignal;
}): RetryUnavailable {
  return async function retryUnavailable(work) {
    const giveUpAt = performance.now() + unavailableMsMax;
    for (;;) {
      signal.throwIfAborted();
      try {
        return await work();
      } catch (error) {
        if (!isUnavailable(error) || performance.now() >= giveUpAt) throw error;
      }
      await sleep(pauseMs, undefined, { signal });
    }
  };
}

export function isUnavailable(error: unknown): boolean {
  return error instanceof ApiError && error.code === 'SERVICE_UNAVAILABLE';
}
