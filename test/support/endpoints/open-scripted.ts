import type { TestFn } from 'ava';
import { generatingNames } from '../../../shared/endpoints/endpoints.ts';
import { type Stack, startStack } from '../../stack/stack.ts';
import { openAccount } from './open-account.ts';
import { startScriptedBackend } from './scripted-backend.ts';

type Scripts = Parameters<typeof startScriptedBackend>[0];
type Options = {
  /** The servers of each model. */
  models: Readonly<Record<string, readonly string[]>>;
  timeouts?: Record<string, number>;
  /** The `queue_ms` of models that are not to wait as long as the others. */
  queueMs?: Readonly<Record<string, number>>;
};

/** Nothing here waits for the limits of a plan. */
const free = {
  ...{ requests_per_minute: 100_000, tokens_per_minute: 100_000_000, tokens_per_month: 1_000_000_000 },
  ...{ requests_at_once: 256, priority: 10, model_tiers: ['guest'] },
};

/** The whole service in front of model servers that answer as their scripts say. */
export function openScripted(test: TestFn, scripts: Scripts, { models, queueMs = {}, ...options }: Options) {
  const parts = new AsyncDisposableStack();
  let servers: Awaited<ReturnType<typeof startScriptedBackend>>;
  let stack: Stack;
  let accounts = 0;
  test.before(async () => {
    servers = parts.use(await startScriptedBackend(scripts));
    const backends = Object.keys(scripts).map((name) => [
      name,
      { url: servers.url(name), location: 'on-prem' as const },
    ]);
    const endpoints = [...generatingNames, 'embeddings'];
    const named = Object.entries(models).map(([name, backends]) => [
      name,
      {
        ...{ tier: 'guest', pool: 'default', backends, endpoints, output_tokens_max: 4_096 },
        ...(queueMs[name] !== undefined && { queue_ms: queueMs[name] }),
      },
    ]);
    stack = parts.use(
      await startStack({
        ...{ ...options, plans: { free }, prices: {} },
        ...{ backends: Object.fromEntries(backends), models: Object.fromEntries(named) },
      }),
    );
  });
  test.after.always(() => parts.disposeAsync());
  return {
    stack: () => stack,
    /** The bodies of the calls of a server. */
    asked: (name: string) => servers.asked[name] ?? [],
    /** A new account. */
    account: () => openAccount(stack, `account-${++accounts}`),
  };
}
