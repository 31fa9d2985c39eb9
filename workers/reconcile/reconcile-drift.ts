import { isDeepStrictEqual } from 'node:util';
import type { MonthTokens } from '../../shared/limits/seed.ts';
import type { UsageMonth, UsageSum } from '../../shared/store/usage/usage-sums.ts';

/**
 * What was found of an account's month. `kept` is the sum that the store has, `recomputed` the one that its records come to;
 * `counter` is there where Redis counts the month: `expected` follows from the records and what waits in the outbox.
 */
export type MonthCheck = UsageMonth & {
  kept: UsageSum | undefined;
  recomputed: UsageSum | undefined;
  counter: { counted: MonthTokens; expected: MonthTokens } | undefined;
};

/** By how many charged tokens something is off; 0 where only other numbers differ. Undefined where nothing does. */
export function driftOf(look: MonthCheck): { tokens: number } | undefined {
  const { counter } = look;
  if (!sumDiffers(look) && isDeepStrictEqual(counter?.counted, counter?.expected)) return undefined;
  const inCounter = counter === undefined ? 0 : Math.abs(counter.counted.used - counter.expected.used);
  // Not both together: Redis most often counts on from a sum that was wrong already.
  return { tokens: Math.max(Math.abs(missingInSum(look).used), inCounter) };
}

export function sumDiffers({ kept, recomputed }: Pick<MonthCheck, 'kept' | 'recomputed'>): boolean {
  return !isDeepStrictEqual(kept?.total, recomputed?.total) || daysDiffer({ kept, recomputed });
}

export function daysDiffer({ kept, recomputed }: Pick<MonthCheck, 'kept' | 'recomputed'>): boolean {
  return !isDeepStrictEqual(kept?.days, recomputed?.days);
}

/** What the records have and the sum does not; negative where the sum has too much. */
export function missingInSum({ kept, recomputed }: Pick<MonthCheck, 'kept' | 'recomputed'>): {
  used: number;
  overage: number;
} {
  return {
    used: (recomputed?.total.chargedTokens ?? 0) - (kept?.total.chargedTokens ?? 0),
    overage: (recomputed?.total.overageTokens ?? 0) - (kept?.total.overageTokens ?? 0),
  };
}
