import type { LimitCounters } from './admission.ts';
import type { Allowance } from './admit.ts';

/**
 * The month of an account in tokens (contract.md#e4-monthly-quota). `limit` is the plan's limit plus this month's top-ups, null for none.
 * `remaining` is neither used nor reserved, null if there is no limit. `overageLimit` bounds overage if that is enabled, null if it has no
 * bound. Dates are `YYYY-MM-DD`, UTC; the period ends where the next one
 * starts.
 */
type Quota = {
  limit: number | null;
  used: number;
  reserved: number;
  remaining: number | null;
  topUp: number;
  overageUsed: number;
  overageLimit: number | null;
  period: { start: string; end: string };
};

export function quotaOf(
  { month, chargedTokens, reservedTokens, overageTokens }: LimitCounters,
  allowance: Allowance,
): Quota {
  const topUp = allowance.topUp?.month === month ? allowance.topUp.tokens : 0;
  const limit = allowance.tokensPerMonth === undefined ? null : allowance.tokensPerMonth + topUp;
  const remaining = limit === null ? null : Math.max(0, limit - chargedTokens - reservedTokens);
  const overageLimit = allowance.overageTokensPerMonth ?? null;
  const tokens = { used: chargedTokens, reserved: reservedTokens, overageUsed: overageTokens };
  return { limit, ...tokens, remaining, topUp, overageLimit, period: periodOf(month) };
}

/** Returns the bound of overage, if that is enabled and has one. */
export function overageMaxOf({ overageEnabled, overageTokensPerMonth }: Allowance): number | undefined {
  return overageEnabled ? overageTokensPerMonth : undefined;
}

/** Whether the allowance and the overage that it has are used, without what is reserved. */
export function isUsedUp(counters: LimitCounters, allowance: Allowance): boolean {
  const { limit, used, overageUsed } = quotaOf(counters, allowance);
  if (limit === null || used < limit) return false;
  const overageMax = overageMaxOf(allowance);
  if (overageMax === undefined) return !allowance.overageEnabled;
  return used >= limit + overageMax || overageUsed >= overageMax;
}

function periodOf(month: string): Quota['period'] {
  const [year = 0, number = 0] = month.split('-').map(Number);
  return { start: `${month}-01`, end: new Date(Date.UTC(year, number)).toISOString().slice(0, 10) };
}
