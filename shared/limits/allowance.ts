import type { Caller } from '../caller.ts';
import type { PlanFile } from '../plan-file/plan-file.ts';
import type { Allowance } from './admit.ts';

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

function monthOf({ plan, overageEnabled, topUp }: Caller, { plans }: Plans): Allowance {
  const { tokensPerMonth, overageTokensPerMonth } = plans[plan] ?? {};
  return { tokensPerMonth, topUp, overageEnabled, overageTokensPerMonth };
}
