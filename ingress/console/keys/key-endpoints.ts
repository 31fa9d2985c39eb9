import type { Model } from '../../routes/models.ts';

/** The paths of each endpoint, by its name in the plan file. A key names endpoints by their paths, a model by their names. */
export const endpointPaths: Readonly<Record<string, readonly string[]>> = {
  chat: ['/v1/chat/completions'],
  completions: ['/v1/completions'],
  embeddings: ['/v1/embeddings'],
  responses: ['/v1/responses'],
  messages: ['/v1/messages', '/v1/messages/count_tokens'],
  rerank: ['/v1/rerank'],
};

/** The paths of the endpoints that at least one of these models offers. */
export function offeredPaths(models: readonly Model[]): string[] {
  const names = new Set(models.flatMap(({ endpoints }) => endpoints));
  return Object.entries(endpointPaths).flatMap(([name, paths]) => (names.has(name) ? paths : []));
}
