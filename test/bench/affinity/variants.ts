import { createPlanEditor } from '../../support/plan-file-editor.ts';
import { openBooks } from '../gateways/books.ts';
import { type Gateway, modelName } from '../gateways/gateway.ts';
import { smgVersion, startSmg } from '../gateways/smg.ts';
import { startService } from '../gateways/start-service.ts';
import type { ServerCall } from './start-model-servers.ts';

/** What stands between the clients and the model servers. */
export type Variant =
  | { readonly name: string; readonly affinity: 'prefix' | 'none'; readonly workers: number }
  | { readonly name: string; readonly policy: 'prefix_hash' | 'cache_aware' };

const service = (affinity: 'prefix' | 'none', workers: number): Variant => ({
  ...{ name: nameOf(affinity, workers), affinity, workers },
});
const smg = (policy: 'prefix_hash' | 'cache_aware'): Variant => ({ name: smgNames[policy], policy });

/** One ingress and this many workers. */
export function nameOf(affinity: 'prefix' | 'none', workers: number): string {
  return `${affinity} 1+${workers}`;
}

export const smgNames = { prefix_hash: `SMG ${smgVersion} prefix_hash`, cache_aware: `SMG ${smgVersion} cache_aware` };

export const workerCounts = [1, 4, 8] as const;

export const variants: readonly Variant[] = [
  ...workerCounts.flatMap((workers) => [service('prefix', workers), service('none', workers)]),
  ...[smg('prefix_hash'), smg('cache_aware')],
];

export interface VariantPlace {
  readonly directory: string;
  /** The addresses of the model servers, without `/v1`. */
  readonly backends: readonly string[];
  readonly slotsEach: number;
  /** What all prompts have in common, in characters. */
  readonly sharedCharacters: number;
  readonly calls: () => Promise<readonly ServerCall[]>;
}

export type StartedVariant = Gateway & {
  /** Takes a backend out of the plan's choice. Resolves when this is in force in all processes. */
  removeBackend?(server: number): Promise<void>;
};

export function startVariant(variant: Variant, place: VariantPlace): Promise<StartedVariant> {
  return 'policy' in variant ? startPeer(variant.policy, place) : startOurs(variant, place);
}

const account = 'user:free';
const backendName = (server: number) => `server-${server + 1}`;

async function startOurs(
  { affinity, workers }: Extract<Variant, { workers: number }>,
  { directory, backends, slotsEach, calls }: VariantPlace,
): Promise<StartedVariant> {
  await using parts = new AsyncDisposableStack();
  const service = parts.use(
    await startService({
      ...{ directory, name: crypto.randomUUID(), workers, modelServer: { url: backends[0] ?? '' } },
      models: { [modelName]: { tier: 'guest', pool: 'default', affinity } },
      backends: Object.fromEntries(
        backends.map((url, server) => [
          backendName(server),
          { url: `${url}/v1`, location: 'on-prem' as const, requests_at_once: slotsEach },
        ]),
      ),
    }),
  );
  const key = await service.keyOn('free');
  const bookCalls = async () =>
    (await calls()).map(({ requestId, startedAt, promptTokens, completionTokens }) => ({
      ...{ id: requestId, at: startedAt, tokens: promptTokens + completionTokens },
    }));
  const books = parts.use(
    await openBooks({ redisUrl: service.redis.url, ...service, account, modelServer: { calls: bookCalls } }),
  );
  const owned = parts.move();
  return {
    urls: service.urls,
    headers: { authorization: `Bearer ${key}` },
    processes: service.processes,
    drained: books.drained,
    books: books.books,
    async removeBackend(server) {
      const editor = createPlanEditor(service);
      const written = await editor.change((plan) => {
        plan.backends[backendName(server)] = { ...plan.backends[backendName(server)], weight: 0 };
      });
      await editor.until([...service.ingresses, ...service.workers], ({ generation }) => generation === written);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** How many tokens of a prompt beyond the shared ones tell chats apart. SMG takes four characters for a token. */
const ownTokens = 100;
const charactersPerToken = 4;

/**
 * The settings with the most cached tokens here: the hash covers what all prompts share and the beginning of what is their own, and a
 * match that is mostly the shared part is none.
 */
function startPeer(policy: 'prefix_hash' | 'cache_aware', place: VariantPlace): Promise<StartedVariant> {
  const { directory, backends, sharedCharacters } = place;
  const hashedTokens = Math.ceil(sharedCharacters / charactersPerToken) + ownTokens;
  const settings = {
    prefix_hash: ['--prefix-token-count', String(hashedTokens)],
    cache_aware: sharedCharacters === 0 ? [] : ['--cache-threshold', '0.85'],
  };
  return startSmg({ directory, backends, policy, settings: settings[policy] });
}
