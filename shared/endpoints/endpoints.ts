import { chat } from './chat/chat.ts';
import { completions } from './completions.ts';
import type { Endpoint } from './definition/endpoint.ts';
import { embeddings } from './embeddings.ts';
import { countTokens, messages } from './messages/messages.ts';
import { rerank } from './rerank.ts';
import { responses } from './responses/responses.ts';

/** Every endpoint. The ingress has a route for each of them. */
export const endpoints: readonly Endpoint[] = [chat, completions, embeddings, responses, messages, countTokens, rerank];

const byPath = new Map<string, Endpoint>(endpoints.map((endpoint) => [endpoint.path, endpoint]));

/** Returns the endpoint of a job or a record. Throws if this program has no such endpoint. */
export function endpointAt(path: string): Endpoint {
  const endpoint = byPath.get(path);
  if (endpoint === undefined) throw new Error(`there is no endpoint "${path.slice(0, 100)}"`);
  return endpoint;
}

/** The names that the plan file can list for a model. */
export const endpointNames: readonly string[] = [...new Set(endpoints.map(({ name }) => name))];

/** Those that generate text, and need an output limit. */
export const generatingNames: readonly string[] = [
  ...new Set(endpoints.filter(({ request }) => request.limitFields.length > 0).map(({ name }) => name)),
];
