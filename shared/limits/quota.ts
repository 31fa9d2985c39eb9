import type { LimitCounters } from './admission.ts';
import type { Allowance } from './admit.ts';

/**
 * The month of an account in tokens (contract.md#e4-monthly-quota). `limit` is the plan's limit plus this month's top-ups, null for none.
 * `remaining` is neither used nor reserved, null if there is no limit. Dates are `YYYY-MM-DD`, UTC; the period ends where the next one
 * starts.
 */
type Quota = {
  limit: number | null;
  used: number;
  reserved: number;
  remaining: number | null;
  topUp: number;
  overageUsed: number;
  period: { start: string; end: string };
};

export function quotaOf({ month, used, reserved, overageUsed }: LimitCounters, allowance: Allowance): Quota {
  const topUp = allowance.topUp?.month === month ? allowance.topUp.tokens : 0;
  const limit = allowance.tokensPerMonth === undefined ? null : allowance.tokensPerMonth + topUp;
  const remaining = limit === null ? null : Math.max(0, limit - used - reserved);
  return { limit, used, reserved, remaining, topUp, overageUsed, period: periodOf(month) };
}

function periodOf(month: string): Quota['period'] {
  const [year = 0, number = 0] = month.split('-').map(Number);
  return { start: `${month}-01`, end: new Date(Date.UTC(year, number)).toISOString().slice(0, 10) };
}
