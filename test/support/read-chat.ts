import { type CallableModels, type ReadCall, readCall } from '../../shared/endpoints/definition/read-call.ts';
import { endpointAt } from '../../shared/endpoints/endpoints.ts';
import type { ListedFields } from '../../shared/endpoints/fields/listed-fields.ts';
import type { SentJson } from '../../shared/json/exact-json.ts';

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
    ...{ rule: anyField, ...options },
  });
}
