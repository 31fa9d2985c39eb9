import { z } from 'zod';
import { validationError } from '../../shared/errors.ts';
import type { PlanFile, Model as PlannedModel, Prices } from '../../shared/plan-file/plan-file.ts';
import type { Caller } from '../../shared/store/records/account.ts';
import { mayUseModel } from '../../shared/store/records/key.ts';
import { limitParameter, parseQuery } from '../api/lists.ts';
import { modelNotFound, modelsOf, noSuchModel } from '../api/plan-models.ts';
import { count } from '../api/response-fields.ts';
import { named, type Route, route } from '../api/route.ts';
import { isAnthropic } from '../middleware/request-head.ts';

/** What Anthropic's lists take; other parameters, such as `beta`, have no effect. */
const anthropicListQuery = z.object({
  limit: limitParameter({ max: 1_000, usual: 20 }),
  after_id: z.string().optional().meta({ description: 'The list starts after this model.' }),
  before_id: z.string().optional().meta({ description: 'The list ends before this model.' }),
});

/** In OpenAI's format they have no effect, so they are checked only in Anthropic's. */
const anyQuery = z.unknown().meta({ documentedAs: anthropicListQuery });

const model = z.strictObject({
  id: z.string(),
  object: z.literal('model'),
  created: count,
  owned_by: z.string(),
  tier: z.string(),
  endpoints: z
    .array(z.string())
    .meta({ description: 'The endpoints that the model offers, as the plan file names them.' }),
  price: z
    .strictObject({ prompt: z.string(), cached: z.string(), completion: z.string(), currency: z.string() })
    .optional()
    .meta({ description: 'What a million tokens cost today, exact. Without it, the model has no price.' }),
});

const modelList = z.strictObject({ object: z.literal('list'), data: z.array(model) });

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
const anyModelSchema = named('Model', z.union([model, anthropicModel]));

const anyModelListSchema = named('ModelList', z.union([modelList, anthropicModelList]));

export type Model = z.infer<typeof model>;

const exampleModel = {
  id: 'small-chat',
  object: 'model',
  created: 0,
  owned_by: 'service',
  tier: 'standard',
  endpoints: ['chat'],
  price: { prompt: '0.15', cached: '0.075', completion: '0.6', currency: 'USD' },
};

const inAnthropicsFormat =
  "In OpenAI's format. With the header `anthropic-version`, answers and errors are in Anthropic's.";

export const modelRoutes: readonly Route[] = [
  /**
   * The models of the caller's plan that its key may use, in OpenAI's format plus `tier`, `endpoints` and `price`; in Anthropic's if
   * the client sends `anthropic-version` (contract.md#d15-other-clients).
   */
  route({
    id: 'listModels',
    method: 'GET',
    path: '/v1/models',
    access: 'either',
    tag: 'Inference',
    summary: 'List the models of the plan',
    description: `${inAnthropicsFormat} Then it takes these parameters, and otherwise none.`,
    query: anyQuery,
    answers: {
      description: 'The models.',
      schema: anyModelListSchema,
      example: { object: 'list', data: [exampleModel] },
    },
    anyOrigin: true,
    async handle({ ctx, caller, planFile, at }) {
      const models = included(caller, planFile);
      ctx.vary('anthropic-version');
      return isAnthropic(ctx)
        ? anthropicPage(models, ctx.querystring)
        : { object: 'list' as const, data: models.map((model) => present(model, planFile, at)) };
    },
  }),
  /**
   * One model of the caller's plan. An alias is answered under its own name. 404 for any other, whether it exists
   * or not (contract.md#d2-models).
   */
  route({
    id: 'retrieveModel',
    method: 'GET',
    path: '/v1/models/*model',
    access: 'either',
    tag: 'Inference',
    summary: 'Retrieve a model of the plan',
    description: inAnthropicsFormat,
    answers: { description: 'The model.', schema: anyModelSchema, example: exampleModel },
    refusals: ['NOT_FOUND'],
    params: { model: { description: 'The name of a model. It can contain slashes.', example: 'small-chat' } },
    anyOrigin: true,
    async handle({ ctx, planFile, caller, at, params: { model: name } }) {
      const meant = planFile.aliases[name] ?? name;
      const { plan, keyScope } = caller;
      const found = modelsOf(plan, planFile).find(([each]) => each === meant);
      if (found === undefined || !mayUseModel(keyScope, meant, name)) {
        throw modelNotFound(noSuchModel(name, plan, planFile));
      }
      const shown: [string, PlannedModel] = [name, found[1]];
      ctx.vary('anthropic-version');
      return isAnthropic(ctx) ? presentForAnthropic(shown) : present(shown, planFile, at);
    },
  }),
];

/** The models of the plan that the key of the caller may use; by an alias if it may use them by that only. */
function included({ plan, keyScope }: Caller, planFile: PlanFile): [string, PlannedModel][] {
  const aliases = Object.entries(planFile.aliases);
  return modelsOf(plan, planFile).flatMap(([name, model]) => {
    if (mayUseModel(keyScope, name)) return [[name, model]];
    const usable = aliases.filter(([alias, meant]) => meant === name && mayUseModel(keyScope, alias));
    return usable.map(([alias]): [string, PlannedModel] => [alias, model]);
  });
}

/** OpenAI's format requires `created` and `owned_by`. They have no meaning here: the plan file does not have the age of a model. */
function present([id, { tier, endpoints }]: [string, PlannedModel], planFile: PlanFile, at: Date) {
  const price = priceOf(planFile.aliases[id] ?? id, planFile, at);
  const model = { id, object: 'model' as const, created: 0, owned_by: 'service', tier, endpoints: [...endpoints] };
  return { ...model, ...(price && { price }) };
}

/** That of this day (UTC), as in reports of usage. */
function priceOf(name: string, { prices = {}, currency }: Prices, at: Date) {
  const today = at.toISOString().slice(0, 10);
  const price = prices[name]?.findLast(({ from }) => from <= today);
  if (price === undefined) return undefined;
  const { prompt, cached = prompt, completion } = price;
  return { prompt, cached, completion, currency };
}

function anthropicPage(models: readonly [string, PlannedModel][], querystring: string) {
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
function presentForAnthropic([id, { outputTokensMax }]: [string, PlannedModel]) {
  return {
    id,
    type: 'model' as const,
    display_name: id,
    created_at: '1970-01-01T00:00:00Z',
    max_tokens: outputTokensMax ?? null,
    max_input_tokens: null,
    capabilities: null,
    lifecycle: 'active' as const,
    line: null,
    deprecated_at: null,
    retires_at: null,
  };
}
