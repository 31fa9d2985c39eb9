import { z } from 'zod';
import { validationError } from '../../shared/errors.ts';
import type { Model } from '../../shared/plan-file/plan-file.ts';
import { mayUseModel } from '../../shared/store/accounts/key.ts';
import { limitParameter, parseQuery } from '../api/list-query.ts';
import { modelNotFound, noSuchModel } from '../api/no-such-model.ts';
import { modelsOf } from '../api/plan-models.ts';
import { model, modelList } from '../api/response-schemas.ts';
import { isAnthropic } from '../middleware/choose-error-format.ts';
import { type AppContext, pathParameter, stateOf } from '../request-state.ts';

/**
 * `GET /v1/models`: the models of the caller's plan that its key may use, in OpenAI's format plus `tier` and `endpoints`; in Anthropic's if
 * the client sends `anthropic-version` (contract.md#d15-other-clients).
 */
export async function listModels(ctx: AppContext): Promise<void> {
  const models = included(ctx);
  ctx.vary('anthropic-version');
  ctx.body = isAnthropic(ctx) ? anthropicPage(models, ctx.querystring) : { object: 'list', data: models.map(present) };
}

/**
 * `GET /v1/models/{model}`: one model of the caller's plan. An alias is answered under its own name. 404 for any other, whether it exists
 * or not (contract.md#d2-models).
 */
export async function retrieveModel(ctx: AppContext): Promise<void> {
  const planFile = stateOf(ctx, 'planFile');
  const name = pathParameter(ctx, 'model');
  const meant = planFile.aliases[name] ?? name;
  const { plan, keyScope } = stateOf(ctx, 'caller');
  const found = modelsOf(plan, planFile).find(([each]) => each === meant);
  if (found === undefined || !mayUseModel(keyScope, meant, name)) {
    throw modelNotFound(noSuchModel(name, plan, planFile));
  }
  const named: [string, Model] = [name, found[1]];
  ctx.vary('anthropic-version');
  ctx.body = isAnthropic(ctx) ? presentForAnthropic(named) : present(named);
}

/** The models of the plan that the key of the caller may use; by an alias if it may use them by that only. */
function included(ctx: AppContext): [string, Model][] {
  const planFile = stateOf(ctx, 'planFile');
  const { plan, keyScope } = stateOf(ctx, 'caller');
  const aliases = Object.entries(planFile.aliases);
  return modelsOf(plan, planFile).flatMap(([name, model]) => {
    if (mayUseModel(keyScope, name)) return [[name, model]];
    const usable = aliases.filter(([alias, meant]) => meant === name && mayUseModel(keyScope, alias));
    return usable.map(([alias]): [string, Model] => [alias, model]);
  });
}

/** OpenAI's format requires `created` and `owned_by`. They have no meaning here: the plan file does not have the age of a model. */
function present([id, { tier, endpoints }]: [string, Model]) {
  return { id, object: 'model', created: 0, owned_by: 'service', tier, endpoints };
}

/** What Anthropic's lists take; other parameters, such as `beta`, have no effect. */
export const anthropicListQuery = z.object({
  limit: limitParameter({ max: 1_000, usual: 20 }),
  after_id: z.string().optional().meta({ description: 'The list starts after this model.' }),
  before_id: z.string().optional().meta({ description: 'The list ends before this model.' }),
});

function anthropicPage(models: readonly [string, Model][], querystring: string): object {
  const { limit, after_id: after, before_id: before } = parseQuery(anthropicListQuery, querystring);
  const indexOf = (parameter: string, id: string) => {
    const index = models.findIndex(([name]) => name === id);
    if (index < 0) throw validationError([{ path: parameter, message: 'is no model of this list' }]);
    return index;
  };
  const start = after === undefined ? 0 : indexOf('after_id', after) + 1;
  const end = before === undefined ? models.length : indexOf('before_id', before);
  const between = models.slice(start, end);
  const isBackwards = before !== undefined && after === undefined;
  const data = (isBackwards ? between.slice(-limit) : between.slice(0, limit)).map(presentForAnthropic);
  return {
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: data.length < between.length,
  };
}

/** The plan file does not say what is null here, nor the age of a model, for which Anthropic's description has the epoch. */
function presentForAnthropic([id, { outputTokensMax }]: [string, Model]) {
  return {
    id,
    type: 'model',
    display_name: id,
    created_at: '1970-01-01T00:00:00Z',
    max_tokens: outputTokensMax ?? null,
    max_input_tokens: null,
    capabilities: null,
    lifecycle: 'active',
    line: null,
    deprecated_at: null,
    retires_at: null,
  };
}

const unknown = z.null();
const anthropicModel = z.strictObject({
  id: z.string(),
  type: z.literal('model'),
  display_name: z.string(),
  created_at: z.iso.datetime(),
  max_tokens: z.int().nullable(),
  max_input_tokens: unknown,
  capabilities: unknown,
  lifecycle: z.literal('active'),
  line: unknown,
  deprecated_at: unknown,
  retires_at: unknown,
});
const anthropicModelList = z.strictObject({
  data: z.array(anthropicModel),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  has_more: z.boolean(),
});
/** In OpenAI's format or, with `anthropic-version`, in Anthropic's. */
export const anyModel = z.union([model, anthropicModel]);
export const anyModelList = z.union([modelList, anthropicModelList]);
