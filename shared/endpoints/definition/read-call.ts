import { validationError, validationIssuesOf } from '../../errors.ts';
import { exactly, type SentJson, wellFormedJson } from '../../json/exact-json.ts';
import type { Json } from '../../json/json-values.ts';
import { withoutNulls } from '../fields/absent-fields.ts';
import type { CleanedRequest, ListedFields } from '../fields/listed-fields.ts';
import { type RequestCost, requestCost } from '../tokens/request-cost.ts';
import type { Affinity, Endpoint, RequestSummary } from './endpoint.ts';

/**
 * A request for any endpoint, ready to be queued. `payload` is the client's object as JSON text, without its `model`, its `stream` and its
 * output limit. `outputTokensMax` is the limit that the backend gets instead, 0 if the model generates nothing. `assembled` is as in the
 * job.
 */
export type Call = {
  /** The path of the endpoint. */
  endpoint: string;
  model: string;
  /** The name that the client sent, if it is an alias. */
  requestedModel?: string;
  tier: string;
  /** The pool of the model's workers. */
  pool: string;
  stream: boolean;
  includeUsage: boolean;
  assembled: boolean;
  payload: string;
  outputTokensMax: number;
  /** The names of the output limit that the client has used. */
  limitFields: string[];
  /** The number of choices in the answer. */
  choices: number;
  /** Headers of the client for the backend. */
  headers?: Record<string, string>;
  /** What it has in common with requests that should go to the same backend. */
  affinity?: Affinity;
  cost: RequestCost;
};

/** `dropped`: what the client sent that the backend does not get, by names for the client. */
export type ReadCall = Call & { dropped: readonly string[] };

/** A model of the plan file, as far as a request needs it. */
export type CallableModel = {
  tier: string;
  pool: string;
  endpoints: readonly string[];
  outputTokensMax?: number | undefined;
  clampOutputTokens?: boolean | undefined;
};

/** The models of the plan file, and other names for them. */
export type CallableModels = {
  models: Readonly<Record<string, CallableModel>>;
  aliases: Readonly<Record<string, string>>;
};

export type ReadOptions = CallableModels & {
  /** Which fields of a request may reach a backend. */
  rule: ListedFields;
  noSuchModel?: (name: string) => string;
  /** Of a valid request, by the name of its model. */
  affinityOf?: (endpoint: Endpoint, request: object, model: string) => Affinity;
};

/**
 * Checks the body and prepares the payload of its job: the client's object without `service_tier` and what is null or dropped, with an
 * output limit, and with usage if it is a stream (contract.md#d1-accepted-requests). Fails with `VALIDATION_ERROR`, which names each field
 * that is invalid or not allowed by the rule, a model that does not exist (with the text of `noSuchModel`), and a model that does not offer
 * the endpoint.
 */
export function readCall(endpoint: Endpoint, sentByClient: SentJson, options: ReadOptions): ReadCall {
  const { request } = endpoint;
  const sent = wellFormedJson(sentByClient);
  const isPlain = request.isPlain?.(sent.value) === true;
  const { request: value, dropped } = isPlain ? asSent(sent.value) : checkedRequest(endpoint, sent.value, options);
  const { fields, changes = {}, model: named, ...asked } = request.ask(value);
  const { name, model } = modelOf(named, endpoint, options);
  const exact = exactRequest(endpoint, { ...sent, checked: value, model: name, rule: options.rule });
  const hintless = options.rule.withoutHints(exact, name);
  // The worker says whether the answer is a stream.
  const replaced = { ...hintless, ...fields, model: undefined, service_tier: undefined, stream: undefined };
  const unlimited = Object.fromEntries(request.limitFields.map((name) => [name, undefined]));
  // Fields that the worker inserts in front are removed: if a field occurs twice, some servers use the last.
  const payload = JSON.stringify({ ...changed(exact, changes), ...replaced, ...unlimited });
  const affinity = options.affinityOf?.(endpoint, value, name);
  const cost = requestCost(value, { measure: request, text: payload, model });
  return {
    endpoint: endpoint.path,
    ...asked,
    model: name,
    tier: model.tier,
    pool: model.pool,
    ...(name !== named && { requestedModel: named }),
    payload,
    ...(affinity !== undefined && affinity.keys.length > 0 && { affinity }),
    outputTokensMax: cost.outputTokensMax,
    cost,
    limitFields: request.limitFields.filter((field) => exact[field] != null),
    dropped: [...dropped, ...Object.keys(hintless).map((field) => `${field}.pattern`)],
  };
}

const asSent = (request: object) => ({ request, dropped: [] });

type ExactRequest = SentJson & Pick<ReadOptions, 'rule'> & { checked: object; model: string };

/** Returns the checked request with its numbers as the client wrote them. */
function exactRequest({ request }: Endpoint, { value, text, checked, model, rule }: ExactRequest): Json {
  const exact = exactly({ value, text });
  return { ...(exact === value ? checked : rule.cleaned(withoutNulls({ ...exact }), model, request.fields).request) };
}

function changed(sent: Json, changes: NonNullable<RequestSummary['changes']>): object {
  const entries = Object.entries(changes).map(([name, change]) => [name, change(sent[name])]);
  return entries.length === 0 ? sent : { ...sent, ...Object.fromEntries(entries) };
}

function checkedRequest({ request }: Endpoint, value: object, { rule, aliases }: ReadOptions): CleanedRequest {
  const model = modelNamed(value, aliases);
  const cleaned = rule.cleaned(withoutNulls({ ...value }), model, request.fields);
  const parsed = request.schema.safeParse(cleaned.request);
  const issues = [
    ...(parsed.success ? [] : validationIssuesOf(parsed.error)),
    ...cleaned.issues,
    ...rule.issuesIn(cleaned.request, model, request.fields),
  ];
  if (issues.length > 0) throw validationError(issues);
  return cleaned;
}

function modelNamed({ model }: { model?: unknown }, aliases: ReadOptions['aliases']): string {
  return typeof model === 'string' ? (aliases[model] ?? model) : '';
}

function modelOf(named: string, endpoint: Endpoint, options: ReadOptions): { name: string; model: CallableModel } {
  const { models, aliases, noSuchModel = () => 'no such model' } = options;
  const name = aliases[named] ?? named;
  const model = models[name];
  if (model === undefined) throw validationError([{ path: 'model', message: `there is ${noSuchModel(named)}` }]);
  if (model.endpoints.includes(endpoint.name)) return { name, model };
  const offered = model.endpoints.join(', ');
  const message = `"${named}" does not offer ${endpoint.name} (${endpoint.path}); it offers ${offered}`;
  throw validationError([{ path: 'model', message }]);
}
