import { ApiError } from '../../shared/errors.ts';
import type { Model, PlanFile } from '../../shared/process/plan-file.ts';
import { noSuchModel } from '../api/no-such-model.ts';
import { modelsOf } from '../api/plan-models.ts';
import { type AppContext, type Stage, stateOf } from '../request-state.ts';

/** `GET /v1/models`: what the caller's plan includes, in OpenAI's shape plus `tier`. */
export function listModels({ planFile }: { planFile: PlanFile }): Stage {
  return async function listModels(ctx) {
    ctx.body = { object: 'list', data: included(ctx, planFile).map(present) };
  };
}

/** `GET /v1/models/{model}`: one of those; 404 for any other, whether it exists or not. */
export function retrieveModel({ planFile }: { planFile: PlanFile }): Stage {
  return async function retrieveModel(ctx) {
    const { params } = ctx as { params?: { model?: string } }; // the router sets it for the route that names it
    const name = params?.model ?? '';
    const found = included(ctx, planFile).find(([each]) => each === name);
    if (found === undefined) {
      const { plan } = stateOf(ctx, 'caller');
      throw new ApiError('NOT_FOUND', `There is ${noSuchModel(name, plan, planFile)}.`);
    }
    ctx.body = present(found);
  };
}

function included(ctx: AppContext, planFile: PlanFile): [string, Model][] {
  return modelsOf(stateOf(ctx, 'caller').plan, planFile);
}

/** `created` and `owned_by` are part of OpenAI's shape and of no use here: a model is as old as the plan file says nothing of. */
function present([id, { tier }]: [string, Model]) {
  return { id, object: 'model', created: 0, owned_by: 'service', tier };
}
