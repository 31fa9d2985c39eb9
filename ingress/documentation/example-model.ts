import type { PlanFile } from '../../shared/process/plan-file.ts';

/** The model in examples: the first one that a new account may use, because readers run the examples unchanged. */
export function exampleModel({
  models,
  plans,
  defaultPlan,
}: Pick<PlanFile, 'models' | 'plans' | 'defaultPlan'>): string {
  const tiers = plans[defaultPlan]?.modelTiers ?? [];
  const names = Object.keys(models);
  return names.find((name) => tiers.includes(models[name]?.tier ?? '')) ?? names[0] ?? '';
}
