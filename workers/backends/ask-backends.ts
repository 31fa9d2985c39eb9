import { repeatWhile } from '../../shared/concurrency/repeat-while.ts';
import { createSingleFlight, oncePerObject } from '../../shared/concurrency/single-flight.ts';
import { type AskBackend, testHealth } from '../../shared/fleet/ask-backend.ts';
import { askFacts, type BackendFacts, modelNamesAt } from '../../shared/fleet/backend-facts.ts';
import type { Backend, PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Log } from '../../shared/process/log.ts';
import { atMostEvery, type Check } from '../../shared/process/operations.ts';

const lookEveryMs = 30_000;
/** One that has not answered, or not now, is asked at the next look. */
const askAgainMs = 300_000;

/** Whether it says so only for now: it is busy, loads or restarts. */
function isPassing(status: number): boolean {
  return status === 429 || status >= 500;
}

/** Follows what backends say of themselves (contract.md#ms14-settings-of-a-backend). Asks in the background: no request waits for it. */
export function followFacts(deps: {
  ask: AskBackend;
  currentPlanFile: () => Pick<PlanFile, 'models' | 'backends'>;
  /** The backends that this process may call, by their names. */
  called: () => ReadonlyMap<string, Backend>;
  log: Pick<Log, 'warn' | 'debug'>;
  now?: () => number;
}) {
  const { ask, currentPlanFile, called, log, now = () => performance.now() } = deps;
  /** By the settings, so those of a new plan file are asked at once. */
  const known = new WeakMap<Backend, { facts: BackendFacts | undefined; dueAt: number }>();
  let hasNamed = false;

  async function askOne(name: string, backend: Backend): Promise<void> {
    const earlier = known.get(backend);
    if (earlier !== undefined && now() < earlier.dueAt) return;
    known.set(backend, { facts: earlier?.facts, dueAt: now() + lookEveryMs / 2 });
    try {
      const said = await askFacts(ask, backend, modelNamesAt(currentPlanFile(), name));
      if ('refused' in said && isPassing(said.refused)) return;
      known.set(backend, { facts: 'refused' in said ? undefined : said, dueAt: now() + askAgainMs });
    } catch (error) {
      log.debug({ err: error, backend: name }, 'a backend has not said what it serves');
    }
  }

  /** Asks the backends whose time has come. The first time, those without a limit are named in the log. */
  async function look(): Promise<void> {
    const backends = [...called()];
    await Promise.all(backends.map(([name, backend]) => askOne(name, backend)));
    if (hasNamed) return;
    hasNamed = true;
    for (const [name, backend] of backends) {
      if (backend.requestsAtOnce !== undefined) continue;
      const { engine, slots } = known.get(backend)?.facts ?? {};
      const said = { backend: name, ...(engine !== undefined && { engine }), ...(slots !== undefined && { slots }) };
      log.warn(said, 'a backend has no requests_at_once in the plan file: it gets any number of calls at once');
    }
  }

  const looking = repeatWhile({
    everyMs: lookEveryMs,
    work: look,
    isNeeded: () => true,
    onFailure(error) {
      throw error;
    },
  });
  looking.begin();

  return {
    /** The context of a backend in tokens: that of the plan file, else what it has reported. */
    contextOf(name: string): number | undefined {
      const backend = currentPlanFile().backends[name];
      if (backend === undefined) return undefined;
      return backend.contextTokensMax ?? known.get(backend)?.facts?.contextTokens;
    },
    look,
    [Symbol.dispose]: looking[Symbol.dispose],
  };
}

const checkEveryMs = 10_000;
const testEveryMs = 100;

/** Tests of the health of backends, each as its `health` says. */
export function createBackendChecks({
  ask,
  backends,
}: {
  ask: AskBackend;
  backends: () => Readonly<Record<string, Backend>>;
}) {
  const checkOf = oncePerObject((backend: Backend) => atMostEvery(checkEveryMs, () => testHealth(ask, backend)));
  const testOf = oncePerObject((backend: Backend) =>
    atMostEvery(testEveryMs, () =>
      testHealth(ask, backend).then(
        () => true,
        () => false,
      ),
    ),
  );
  const tests = createSingleFlight<string, boolean>({
    nameOf: (name) => name,
    async fetch(name) {
      const backend = backends()[name];
      return backend === undefined || testOf(backend)();
    },
  });
  return {
    /** Checks by their names, each run at most every ten seconds. */
    of: (called: ReadonlyMap<string, Backend>): Record<string, Check> =>
      Object.fromEntries([...called].map(([name, backend]) => [`backend ${name}`, checkOf(backend)])),
    /** False if the test fails. Each backend has one at a time and at most ten a second: all that ask meanwhile get its result. */
    test: tests.join,
  };
}

export type BackendChecks = ReturnType<typeof createBackendChecks>;
