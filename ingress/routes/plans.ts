import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { modelsOf } from '../api/plan-models.ts';
import type { PlanLimits } from '../api/response-schemas.ts';
import { type Stage, stateOf } from '../request-state.ts';

/** `GET /billing/plan`: the limits of the caller's plan, and its models. */
export function retrievePlan({ planFile }: { planFile: PlanFile }): Stage {
  return async function retrievePlan(ctx) {
    ctx.body = present(stateOf(ctx, 'caller').plan, planFile);
  };
}

/** `GET /admin/plans`: every plan of the plan file, in its order. */
export function listPlans({ planFile }: { planFile: PlanFile }): Stage {
  return async function listPlans(ctx) {
    ctx.body = { object: 'list', data: Object.keys(planFile.plans).map((plan) => present(plan, planFile)) };
  };
}

/** A plan that was removed from the plan file has no limits and no models, as for requests. */
function present(plan: string, planFile: PlanFile): PlanLimits {
  const limits = planFile.plans[plan];
  return {
    plan,
    requestsPerMinute: limits?.requestsPerMinute ?? null,
    tokensPerMinute: limits?.tokensPerMinute ?? null,
    tokensPerMonth: limits?.tokensPerMonth ?? null,
    requestsPerDay: limits?.requestsPerDay ?? null,
    requestsAtOnce: limits?.requestsAtOnce ?? null,
    batchRequestsAtOnce: limits?.batchRequestsAtOnce ?? null,
    batchTokensWaiting: limits?.batchTokensWaiting ?? null,
    models: modelsOf(plan, planFile).map(([name]) => name),
  };
}
