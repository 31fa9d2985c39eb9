import { isDeepStrictEqual } from 'node:util';
import type { MonthTokens } from '../../shared/limits/seed.ts';
import type { UsageMonth, UsageSum } from '../../shared/store/usage/usage-sums.ts';

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
export function usageDiffers(checked: Pick<MonthCheck, 'kept' | 'recomputed' | 'wrongDetails'>): boolean {
  return sumDiffers(checked) || checked.wrongDetails > 0;
}

export function sumDiffers({ kept, recomputed }: Pick<MonthCheck, 'kept' | 'recomputed'>): boolean {
  return !isDeepStrictEqual(kept?.total, recomputed?.total);
}

/** Tokens that the records have and the sum does not; negative if the sum has too many. */
export function missingInSum({ kept, recomputed }: Pick<MonthCheck, 'kept' | 'recomputed'>): {
  chargedTokens: number;
  overageTokens: number;
} {
  return {
    chargedTokens: (recomputed?.total.chargedTokens ?? 0) - (kept?.total.chargedTokens ?? 0),
    overageTokens: (recomputed?.total.overageTokens ?? 0) - (kept?.total.overageTokens ?? 0),
  };
}
