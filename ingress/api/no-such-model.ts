import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { modelsOf } from './plan-models.ts';
import { shownText } from './shown-text.ts';

const namedMax = 20;

/**
 * The text of an error after "there is", for a model that is not in the plan. Names up to 20 models of the plan
 * (contract.md#b12-hints-in-a-404).
 */
export function noSuchModel(name: string, plan: string, planFile: Pick<PlanFile, 'plans' | 'models'>): string {
  const names = modelsOf(plan, planFile).map(([model]) => model);
  const more = names.length > namedMax ? ` and ${names.length - namedMax} more` : '';
  const usable = names.length === 0 ? 'no models' : `${names.slice(0, namedMax).join(', ')}${more}`;
  return `no such model "${shownText(name)}"; the plan "${plan}" has ${usable}`;
}
