import { type CallableModels, type ReadCall, readCall } from '../../shared/endpoints/definition/read-call.ts';
import { endpointAt } from '../../shared/endpoints/endpoints.ts';
import { createListedFields, type ListedFields } from '../../shared/endpoints/fields/listed-fields.ts';
import { ApiError } from '../../shared/errors.ts';
import type { SentJson } from '../../shared/json/exact-json.ts';
import type { Model } from '../../shared/plan-file/plan-file.ts';

/** Lets any field pass. */
export const anyField: ListedFields = {
  cleaned: (request) => ({ request, dropped: [], issues: [] }),
  issuesIn: () => [],
  withoutHints: () => ({}),
  isListed: () => true,
};

/** A chat completion for one of these models, which offer nothing else. */
export function readChat(
  sent: SentJson,
  models: Readonly<Record<string, Omit<CallableModels['models'][string], 'endpoints'>>>,
  options: { rule?: ListedFields; noSuchModel?: (name: string) => string } = {},
): ReadCall {
  const offering = Object.entries(models).map(([name, model]) => [name, { ...model, endpoints: ['chat'] }] as const);
  const named = Object.assign(Object.create(null), Object.fromEntries(offering));
  return readCall(endpointAt('/v1/chat/completions'), sent, {
    models: named,
    aliases: Object.create(null),
    rule: anyField,
    ...options,
  });
}

/** A model of a plan file, as tests of fields use it. */
export const fieldModel: Model = {
  tier: 'guest',
  pool: 'default',
  backends: ['a'],
  endpoints: ['chat'],
  outputTokensMax: 4_096,
};

/** What the plan file lists for the model, and its hosts of media. */
type Lists = Partial<Pick<Model, 'extraFields' | 'extraTools'>> & { mediaHosts?: readonly string[] };

/** Reads a chat completion of model `m` with these fields. */
export function parseFields(fields: object, { mediaHosts = [], ...lists }: Lists = {}) {
  const models = { m: { ...fieldModel, ...lists } };
  const value = { model: 'm', messages: [{ role: 'user', content: 'Hi' }], ...fields };
  return readChat({ value, text: JSON.stringify(value) }, models, {
    rule: createListedFields({ models, mediaHosts }),
  });
}

/** The error of a chat completion with these fields. */
export function fieldErrorOf(fields: object, lists?: Lists): ApiError {
  try {
    parseFields(fields, lists);
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error(`${JSON.stringify(fields)} was taken`);
}

/** The paths of its issues. */
export const faultyPathsOf = (fields: object, lists?: Lists) =>
  fieldErrorOf(fields, lists).issues.map(({ path }) => path);
