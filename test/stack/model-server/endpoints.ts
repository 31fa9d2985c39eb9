import { chatCompletions } from './chat/chat.ts';
import { completions } from './completions/completions.ts';
import type { Endpoint } from './endpoint.ts';
import { countTokens, messages } from './messages/messages.ts';
import { embeddings } from './pooling/embeddings.ts';
import { rerank } from './pooling/rerank.ts';
import { responses } from './responses/responses.ts';

/** Every endpoint of the simulated server, by its path. */
export function endpointsByPath(options: { countTokens: boolean }): ReadonlyMap<string, Endpoint> {
  const endpoints = [chatCompletions, completions, embeddings, responses, messages, rerank];
  if (options.countTokens) endpoints.push(countTokens);
  return new Map(endpoints.map((endpoint) => [endpoint.path, endpoint]));
}
