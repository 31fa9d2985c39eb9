import { ApiError } from '../../shared/errors.ts';
import type { Model, PlanFile } from '../../shared/plan-file/plan-file.ts';
import { shownText } from '../listener/json-body.ts';

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

/** The 404 of an unknown model, with the code on which clients of OpenAI act. `text` is that of `noSuchModel`. */
export function modelNotFound(text: string): ApiError {
  const openAi = { code: 'model_not_found', param: 'model' };
  return new ApiError('NOT_FOUND', `There is ${text}.`, { openAi });
}

/** The models of a plan, in the order of the plan file; empty if the plan file no longer has the plan. */
export function modelsOf(plan: string, { plans, models }: Pick<PlanFile, 'plans' | 'models'>): [string, Model][] {
  const tiers = plans[plan]?.modelTiers ?? [];
  return Object.entries(models).filter(([, { tier }]) => tiers.includes(tier));
}
