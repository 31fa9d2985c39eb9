import type { Model } from '../../routes/models.ts';
import type { TriedEndpoint } from './tried-endpoint.ts';
import { chat } from './try-chat.ts';
import { completions } from './try-completions.ts';
import { embeddings } from './try-embeddings.ts';
import { messages } from './try-messages.ts';
import { rerank } from './try-rerank.ts';
import { responses } from './try-responses.ts';

/** The endpoints that the page can call, by their names in the plan file. */
const triedEndpoints: Readonly<Record<string, TriedEndpoint>> = {
  chat,
  responses,
  messages,
  completions,
  embeddings,
  rerank,
};

export function triedEndpoint(name: string): TriedEndpoint {
  return triedEndpoints[name] ?? chat;
}

/** The labels of those that at least one of the models offers. */
export function offeredEndpoints(models: readonly Model[]): Record<string, string> {
  return Object.fromEntries(
    Object.entries(triedEndpoints)
      .filter(([name]) => modelsWith(models, name).length > 0)
      .map(([name, { label }]) => [name, label]),
  );
}

type Scope = { endpoints: readonly string[] | null; models: readonly string[] | null };

/** The models that a key may use, with the endpoints that it may use; all if none of them is left, for example if it names an alias. */
export function usableModels(models: readonly Model[], key: Scope | undefined): readonly Model[] {
  const { endpoints: paths = null, models: names = null } = key ?? {};
  const isOpen = (name: string) => paths === null || paths.some((path) => path === triedEndpoints[name]?.path);
  const usable = models
    .filter(({ id }) => names === null || names.includes(id))
    .map((model) => ({ ...model, endpoints: model.endpoints.filter(isOpen) }));
  return Object.keys(offeredEndpoints(usable)).length === 0 ? models : usable;
}

/** The names of the models that offer an endpoint. */
export function modelsWith(models: readonly Model[], endpoint: string): string[] {
  return models.filter(({ endpoints }) => endpoints.includes(endpoint)).map(({ id }) => id);
}
