import type { PlanFile } from './plan-file.ts';

/** Lists every pool that has a model, each once. */
export function poolsOf({ models }: Pick<PlanFile, 'models'>): string[] {
  return [...new Set(Object.values(models).map(({ pool }) => pool))];
}
