import type { PlanFile } from '../../shared/plan-file.ts';

/** The backends of a model in the order to try them: on-prem replicas before the cloud, else as the plan file has them. */
export function chooseBackends(model: string, { models, backends }: Pick<PlanFile, 'models' | 'backends'>): string[] {
  const names = models[model]?.backends ?? [];
  const at = (location: 'on-prem' | 'cloud') => names.filter((name) => backends[name]?.location === location);
  return [...at('on-prem'), ...at('cloud')];
}
