import type { Seed } from '../../shared/limits/seed.ts';
import { type Redis, redisUnavailable } from '../../shared/redis/connections.ts';
import { countersKey, partitionOf } from '../../shared/redis/keys.ts';
import { redisNow } from '../../shared/redis/redis-now.ts';
import type { UsageStore } from '../../shared/store/usage/usage-store.ts';
import type { UsageMonth } from '../../shared/store/usage/usage-sums.ts';
import { type MonthCheck, missingInSum } from './reconcile-drift.ts';
import { firstMonthKept } from './remove-old-months.ts';
import { summedUpTo } from './summed-up-to.ts';

/**
 * Reads an account's month in the store and, if Redis counts it, in Redis. The result is also correct while requests are settled and
 * drained, except for a record that reached the store early and is about to be repaired: the next check no longer finds it. Fails with
 * `SERVICE_UNAVAILABLE`.
 */
export function createCheckMonth({
  redis,
  store,
  seed,
}: {
  redis: Redis;
  store: Pick<UsageStore, 'recomputeUsage'>;
  seed: Seed;
}): (month: UsageMonth) => Promise<MonthCheck> {
  return async function checkMonth({ account, month }) {
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
  };
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
