import type { Model, PlanFile } from '../../shared/process/plan-file.ts';

/** The models that a plan includes, in the plan file's order; none for a plan that the plan file has no more. */
export function modelsOf(plan: string, { plans, models }: Pick<PlanFile, 'plans' | 'models'>): [string, Model][] {
  const tiers = plans[plan]?.modelTiers ?? [];
  return Object.entries(models).filter(([, { tier }]) => tiers.includes(tier));
}
