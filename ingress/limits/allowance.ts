import type { Allowance } from '../../shared/limits/admit.ts';
import type { PlanFile } from '../../shared/plan-file.ts';
import type { Caller } from '../shared-callers.ts';

/** What this caller's plan and its own settings allow it; a plan that the plan file has no more limits nothing. */
export function allowanceOf({ plan, overageEnabled, topUp }: Caller, { plans }: Pick<PlanFile, 'plans'>): Allowance {
  const limits = plans[plan];
  return {
    requestsPerMinute: limits?.requestsPerMinute,
    tokensPerMinute: limits?.tokensPerMinute,
    requestsPerDay: limits?.requestsPerDay,
    requestsAtOnce: limits?.requestsAtOnce,
    tokensPerMonth: limits?.tokensPerMonth,
    topUp,
    overageEnabled,
  };
}
