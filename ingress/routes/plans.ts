import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { modelsOf } from '../api/plan-models.ts';
import type { PlanLimits } from '../api/response-schemas.ts';
import { type AppContext, stateOf } from '../request-state.ts';

/** `GET /billing/plan`: the limits of the caller's plan, and its models. */
export async function retrievePlan(ctx: AppContext): Promise<void> {
  ctx.body = present(stateOf(ctx, 'caller').plan, stateOf(ctx, 'planFile'));
}

/** `GET /admin/plans`: every plan of the plan file, in its order. */
export async function listPlans(ctx: AppContext): Promise<void> {
  const planFile = stateOf(ctx, 'planFile');
  ctx.body = { object: 'list', data: Object.keys(planFile.plans).map((plan) => present(plan, planFile)) };
}

/** A plan that was removed from the plan file has no limits and no models, as for requests. */
function present(plan: string, planFile: PlanFile): PlanLimits {
  const limits = planFile.plans[plan];
  return {
    plan,
    requestsPerMinute: limits?.requestsPerMinute ?? null,
    tokensPerMinute: limits?.tokensPerMinute ?? null,
    tokensPerMonth: limits?.tokensPerMonth ?? null,
    overage: limits?.overage ?? 'self-service',
    overageTokensPerMonth: limits?.overageTokensPerMonth ?? null,
    requestsPerDay: limits?.requestsPerDay ?? null,
    requestsAtOnce: limits?.requestsAtOnce ?? null,
    batchRequestsAtOnce: limits?.batchRequestsAtOnce ?? null,
    batchTokensWaiting: limits?.batchTokensWaiting ?? null,
    models: modelsOf(plan, planFile).map(([name]) => name),
  };
}
