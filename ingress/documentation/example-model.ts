import type { PlanFile } from '../../shared/process/plan-file.ts';

/** The model that examples ask for: the first one that a new account may use, for they are run as they stand. */
export function exampleModel({
  models,
  plans,
  defaultPlan,
}: Pick<PlanFile, 'models' | 'plans' | 'defaultPlan'>): string {
  const tiers = plans[defaultPlan]?.modelTiers ?? [];
  const names = Object.keys(models);
  return names.find((name) => tiers.includes(models[name]?.tier ?? '')) ?? names[0] ?? '';
}
