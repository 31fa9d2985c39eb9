import type { Caller } from '../caller.ts';
import type { PlanFile } from '../process/plan-file.ts';
import type { Allowance } from './admit.ts';

type Plans = Pick<PlanFile, 'plans'>;

/** What this caller's plan and its own settings allow it; a plan that the plan file has no more limits nothing. */
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

/** The same for the lines of its batches, which have their own limit at once and count against the month alone. */
export function batchAllowanceOf(caller: Caller, planFile: Plans): Allowance {
  return { ...monthOf(caller, planFile), requestsAtOnce: planFile.plans[caller.plan]?.batchRequestsAtOnce };
}

function monthOf({ plan, overageEnabled, topUp }: Caller, { plans }: Plans): Allowance {
  return { tokensPerMonth: plans[plan]?.tokensPerMonth, topUp, overageEnabled };
}
