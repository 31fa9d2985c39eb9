import { setTimeout as sleep } from 'node:timers/promises';
import type { TestFn } from 'ava';
import type { StackModel } from '../stack/plan.ts';
import { type Stack, type StackOptions, startStack } from '../stack/stack.ts';
import { type Account, openAccount } from '../support/endpoints/open-account.ts';
import { skipTest } from '../support/skip-test.ts';
import { type EngineModel, provideEngine } from './provide-engine.ts';
import { type Engine, startEngine } from './start-engine.ts';

const files = await provideEngine().catch((error: Error) => error);

/** Nothing here waits for the limits of a plan. */
const generous = {
  requests_per_minute: 100_000,
  tokens_per_minute: 100_000_000,
  tokens_per_month: 1_000_000_000,
  requests_at_once: 256,
  priority: 10,
  model_tiers: ['guest'],
};

export type Replicas = {
  model: EngineModel;
  /** How many engines serve it. Default: one. */
  count?: number;
  slots: number;
  contextTokens: number;
  outputTokensMax?: number;
  endpoints: readonly string[];
  affinity?: StackModel['affinity'];
};

type Options = Pick<StackOptions, 'timeouts' | 'env'>;

/**
 * The whole service in front of engines, for the tests of one file: a model of the plan for each of these names, served by its own engines.
 * Without the engine the tests are skipped as `skipTest` says.
 */
export function openEngineTests<Names extends string>(
  test: TestFn,
  replicas: Record<Names, Replicas>,
  options: Options = {},
) {
  if (files instanceof Error) {
    skipTest(test, { title: 'the tests with a real engine', reason: files.message });
    const none = () => {
      throw files;
    };
    return {
      ...{ engineTest: test.skip, engineTestAlone: test.serial.skip },
      ...{ stack: none, enginesOf: none, account: none },
    };
  }
  const parts = new AsyncDisposableStack();
  const engines = new Map<string, Engine[]>();
  let stack: Stack;
  let accounts = 0;
  test.before(async () => {
    const named = Object.entries<Replicas>(replicas);
    for (const [name, { count = 1, model, slots, contextTokens }] of named) {
      const starting = Array.from({ length: count }, () => startEngine({ files, model, slots, contextTokens }));
      engines.set(
        name,
        (await Promise.all(starting)).map((engine) => parts.use(engine)),
      );
    }
    const backendsOf = (name: string) => (engines.get(name) ?? []).map((_, index) => `${name}-${index}`);
    const backends = named.flatMap(([name, { slots }]) =>
      (engines.get(name) ?? []).map(({ url }, index) => [
        `${name}-${index}`,
        { url: `${url}/v1`, location: 'on-prem' as const, requests_at_once: slots },
      ]),
    );
    const models = named.map(([name, { endpoints, affinity, outputTokensMax = 4_096 }]) => [
      name,
      {
        ...{ tier: 'guest', pool: 'default', backends: backendsOf(name) },
        ...{ endpoints, output_tokens_max: outputTokensMax, ...(affinity && { affinity }) },
      },
    ]);
    stack = parts.use(
      await startStack({
        ...{ ...options, plans: { free: generous } },
        ...{ backends: Object.fromEntries(backends), models: Object.fromEntries(models) },
      }),
    );
  });
  test.after.always(() => parts.disposeAsync());
  return {
    engineTest: test,
    /** For tests that read what all requests of an engine change. */
    engineTestAlone: test.serial,
    stack: () => stack,
    enginesOf: (name: Names): Engine[] => engines.get(name) ?? [],
    /** A new account. */
    account: (): Promise<Account> => openAccount(stack, `account-${++accounts}`),
  };
}

/** Resolves when this is true, and throws with `what` if it is not within a time that no busy machine needs. */
export async function until(what: string, isTrue: () => Promise<boolean>, withinMs = 10_000): Promise<void> {
  for (const giveUpAt = Date.now() + withinMs; !(await isTrue()); await sleep(20)) {
    if (Date.now() > giveUpAt) throw new Error(`not within ${withinMs} ms: ${what}`);
  }
}
