import { z } from 'zod';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { modelsOf } from '../api/plan-models.ts';
import { limit } from '../api/response-fields.ts';
import { named, type Route, route } from '../api/route.ts';

export const planLimitsSchema = named(
  'Plan',
  z.strictObject({
    plan: z.string(),
    requestsPerMinute: limit,
    tokensPerMinute: limit,
    tokensPerMonth: limit,
    overage: z.enum(['self-service', 'operator']).meta({ description: 'Who turns overage on and off.' }),
    overageTokensPerMonth: limit,
    requestsPerDay: limit,
    requestsAtOnce: limit,
    batchRequestsAtOnce: limit,
    batchTokensWaiting: limit,
    models: z.array(z.string()),
  }),
);

export const planListSchema = named(
  'PlanList',
  z.strictObject({ object: z.literal('list'), data: z.array(planLimitsSchema) }),
);

export type PlanLimits = z.infer<typeof planLimitsSchema>;

const examplePlan = {
  plan: 'free',
  requestsPerMinute: 20,
  tokensPerMinute: 60000,
  tokensPerMonth: 1000000,
  overage: 'self-service',
  overageTokensPerMonth: null,
  requestsPerDay: null,
  requestsAtOnce: 4,
  batchRequestsAtOnce: 8,
  batchTokensWaiting: 2000000,
  models: ['small-chat'],
};

export const planRoutes: readonly Route[] = [
  /** The limits of the caller's plan, and its models. */
  route({
    id: 'retrievePlan',
    method: 'GET',
    path: '/billing/plan',
    access: 'either',
    tag: 'Billing',
    summary: 'Retrieve the plan of the caller',
    description: 'Its limits and models; a limit of null is no limit.',
    answers: { description: 'The plan.', schema: planLimitsSchema, example: examplePlan },
    async handle({ planFile, caller }) {
      return present(caller.plan, planFile);
    },
  }),
  /** Every plan of the plan file, in its order. */
  route({
    id: 'listPlans',
    method: 'GET',
    path: '/admin/plans',
    access: 'operator',
    tag: 'Operators',
    summary: 'List the plans',
    answers: {
      description: 'All plans with their limits and models.',
      schema: planListSchema,
      example: { object: 'list', data: [examplePlan] },
    },
    async handle({ planFile }) {
      return { object: 'list' as const, data: Object.keys(planFile.plans).map((plan) => present(plan, planFile)) };
    },
  }),
];

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
