import { ApiError } from '../../shared/errors.ts';
import { mayUseModel } from '../../shared/key-scope.ts';
import type { Model } from '../../shared/plan-file/plan-file.ts';
import { noSuchModel } from '../api/no-such-model.ts';
import { modelsOf } from '../api/plan-models.ts';
import { type AppContext, pathParameter, stateOf } from '../request-state.ts';

/** `GET /v1/models`: the models of the caller's plan that its key may use, in OpenAI's format plus `tier` and `endpoints`. */
export async function listModels(ctx: AppContext): Promise<void> {
  ctx.body = { object: 'list', data: included(ctx).map(present) };
}

/**
 * `GET /v1/models/{model}`: one model of the caller's plan. An alias is answered under its own name. 404 for any other, whether it exists
 * or not (contract.md#d2-models).
 */
export async function retrieveModel(ctx: AppContext): Promise<void> {
  const planFile = stateOf(ctx, 'planFile');
  const name = pathParameter(ctx, 'model');
  const meant = planFile.aliases[name] ?? name;
  const { plan, furtherKey } = stateOf(ctx, 'caller');
  const found = modelsOf(plan, planFile).find(([each]) => each === meant);
  if (found === undefined || !mayUseModel(furtherKey, meant, name)) {
    throw new ApiError('NOT_FOUND', `There is ${noSuchModel(name, plan, planFile)}.`);
  }
  ctx.body = present([name, found[1]]);
}

/** The models of the plan that the key of the caller may use; by an alias if it may use them by that only. */
function included(ctx: AppContext): [string, Model][] {
  const planFile = stateOf(ctx, 'planFile');
  const { plan, furtherKey } = stateOf(ctx, 'caller');
  const aliases = Object.entries(planFile.aliases);
  return modelsOf(plan, planFile).flatMap(([name, model]) => {
    if (mayUseModel(furtherKey, name)) return [[name, model]];
    const usable = aliases.filter(([alias, meant]) => meant === name && mayUseModel(furtherKey, alias));
    return usable.map(([alias]): [string, Model] => [alias, model]);
  });
}

/** OpenAI's format requires `created` and `owned_by`. They have no meaning here: the plan file does not have the age of a model. */
function present([id, { tier, endpoints }]: [string, Model]) {
  return { id, object: 'model', created: 0, owned_by: 'service', tier, endpoints };
}
