import type { PlanFile } from '../plan-file/plan-file.ts';
import type { Caller } from '../store/records/account.ts';
import type { LimitCounters } from './admission.ts';
import type { Allowance } from './admit.ts';

/**
 * The month of an account in tokens (contract.md#e4-monthly-quota). `limit` is the plan's limit plus this month's top-ups, null for none.
 * `remaining` is neither charged nor reserved, null if there is no limit. `overageLimit` bounds overage if that is enabled, null if it has
 * no bound. Dates are `YYYY-MM-DD`, UTC; the period ends where the next one starts.
 */
type Quota = {
  limit: number | null;
  chargedTokens: number;
  reservedTokens: number;
  remaining: number | null;
  topUp: number;
  overageTokens: number;
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
  const tokens = { chargedTokens, reservedTokens, overageTokens };
  return { limit, ...tokens, remaining, topUp, overageLimit, period: periodOf(month) };
}

/** Returns the bound of overage, if that is enabled and has one. */
export function overageMaxOf({ overageEnabled, overageTokensPerMonth }: Allowance): number | undefined {
  return overageEnabled ? overageTokensPerMonth : undefined;
}

/** Whether the allowance and the overage that it has are charged, without what is reserved. */
export function isUsedUp(counters: LimitCounters, allowance: Allowance): boolean {
  const { limit, chargedTokens, overageTokens } = quotaOf(counters, allowance);
  if (limit === null || chargedTokens < limit) return false;
  const overageMax = overageMaxOf(allowance);
  if (overageMax === undefined) return !allowance.overageEnabled;
  return chargedTokens >= limit + overageMax || overageTokens >= overageMax;
}

function periodOf(month: string): Quota['period'] {
  const [year = 0, number = 0] = month.split('-').map(Number);
  return { start: `${month}-01`, end: new Date(Date.UTC(year, number)).toISOString().slice(0, 10) };
}

type Plans = Pick<PlanFile, 'plans'>;

/** Returns what this caller's plan and its own settings allow. A plan that is no longer in the plan file has no limits. */
export function allowanceOf(caller: Caller, planFile: Plans): Allowance {
  const limits = planFile.plans[caller.plan];
  return {
    ...monthOf(caller, planFile),
    requestsPerMinute: limits?.requestsPerMinute,
    tokensPerMinute: limits?.tokensPerMinute,
    requestsPerDay: limits?.requestsPerDay,
    requestsAtOnce: limits?.requestsAtOnce,
  };
}

/**
 * Returns the same for the lines of its batches, which have their own limit at once and count only against the month
 * (contract.md#f5-limits-of-batches).
 */
export function batchAllowanceOf(caller: Caller, planFile: Plans): Allowance {
  return { ...monthOf(caller, planFile), requestsAtOnce: planFile.plans[caller.plan]?.batchRequestsAtOnce };
}

/** The bound of overage is the lower one of the plan's and the account's own. Without a limit of the month there is no overage. */
function monthOf({ plan, overageEnabled, overageTokensMax, topUp }: Caller, { plans }: Plans): Allowance {
  const { tokensPerMonth, overageTokensPerMonth } = plans[plan] ?? {};
  const own = tokensPerMonth === undefined ? undefined : overageTokensMax;
  const bounds = [overageTokensPerMonth, own].filter((bound) => bound !== undefined);
  return {
    tokensPerMonth,
    topUp,
    overageEnabled,
    overageTokensPerMonth: bounds.length === 0 ? undefined : Math.min(...bounds),
  };
}
