import type { Model, PlanFile } from '../../shared/plan-file/plan-file.ts';

/** The models of a plan, in the order of the plan file; empty if the plan file no longer has the plan. */
export function modelsOf(plan: string, { plans, models }: Pick<PlanFile, 'plans' | 'models'>): [string, Model][] {
  const tiers = plans[plan]?.modelTiers ?? [];
  return Object.entries(models).filter(([, { tier }]) => tiers.includes(tier));
}
