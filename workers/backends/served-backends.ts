import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { type BackendHealth, createBackendHealth, failedMs, type RecentOutcomes } from './backend-health.ts';
import type { BreakerState } from './breaker.ts';

/** What this process has seen of a backend for a model. */
export type SeenHealth = BreakerStatus & { firstTokenMs: number | undefined; suspects: number } & RecentOutcomes;

/** The breaker of a backend for a model. */
export type BreakerStatus = { model: string; backend: string; breaker: Exclude<BreakerState, 'probing'> };

type ServedBackend = { url: string; health: BackendHealth };

const none: ReadonlyMap<string, BackendHealth> = new Map();

/** The health of each backend, for each model of this process's pools. */
export function createServedBackends(deps: {
  currentPlanFile: () => Pick<PlanFile, 'models' | 'backends' | 'timeouts'>;
  pools: () => readonly string[];
  onBreaker: (status: BreakerStatus) => void;
  /** Asks a backend for its health: false if that fails. */
  test: (backend: string) => Promise<boolean>;
  /** A test has ended that calls waited for. */
  onLooked: () => void;
  random: () => number;
  now: () => number;
}) {
  const { currentPlanFile, pools, onBreaker, test, onLooked, random, now } = deps;
  const probeMs = () => currentPlanFile().timeouts.firstTokenMs;
  let served = new Map<string, Map<string, ServedBackend>>();
  let healths = new Map<string, ReadonlyMap<string, BackendHealth>>();
  let names = new Set<string>();
  follow();

  /** Takes over the current plan file. A backend of a model keeps its health while its address stays the same. */
  function follow(): void {
    const { models, backends } = currentPlanFile();
    const [earlier, ownPools] = [served, pools()];
    served = new Map(
      Object.entries(models)
        .filter(([, { pool }]) => ownPools.includes(pool))
        .map(([model, { backends: ofModel }]) => {
          const known = earlier.get(model);
          const entries = [...new Set(ofModel)].map((name) => {
            const url = backends[name]?.url ?? '';
            const same = known?.get(name);
            return [name, same?.url === url ? same : { url, health: serve(model, name) }] as const;
          });
          return [model, new Map(entries)];
        }),
    );
    healths = new Map([...served].map(([model, ofModel]) => [model, healthsOf(ofModel)]));
    names = new Set([...served.values()].flatMap((ofModel) => [...ofModel.keys()]));
    const kept = new Set([...served.values()].flatMap((ofModel) => [...ofModel.values()]));
    for (const ofModel of earlier.values()) {
      for (const backend of ofModel.values()) if (!kept.has(backend)) backend.health[Symbol.dispose]();
    }
  }

  function serve(model: string, backend: string): BackendHealth {
    const report = (state: BreakerState) => onBreaker({ model, backend, breaker: shown(state) });
    return createBackendHealth({ onBreaker: report, test: () => test(backend), onLooked, probeMs, random, now });
  }

  return {
    /** In the order of the plan file. */
    ofModel: (model: string): ReadonlyMap<string, BackendHealth> => healths.get(model) ?? none,
    /** A request is to be sent: of those that were away, some may be back. */
    lookAgain(model: string): void {
      for (const health of healths.get(model)?.values() ?? []) health.lookAgain();
    },
    names: (): ReadonlySet<string> => names,
    breakerStatuses: (): BreakerStatus[] =>
      [...healths].flatMap(([model, backends]) =>
        [...backends].map(([backend, health]) => ({ model, backend, breaker: shown(health.breaker()) })),
      ),
    seenHealth: (): SeenHealth[] =>
      [...healths].flatMap(([model, backends]) =>
        [...backends].map(([backend, health]) => ({
          model,
          backend,
          breaker: shown(health.breaker()),
          firstTokenMs: measured(health.firstTokenMs()),
          suspects: health.suspects(),
          ...health.recent(),
        })),
      ),
    follow,
    [Symbol.dispose]() {
      for (const backends of healths.values()) for (const health of backends.values()) health[Symbol.dispose]();
    },
  };
}

export type ServedBackends = ReturnType<typeof createServedBackends>;

function healthsOf(served: ReadonlyMap<string, ServedBackend>): ReadonlyMap<string, BackendHealth> {
  return new Map([...served].map(([name, { health }]) => [name, health]));
}

/** After a failure, a time stands for "slower than any other". */
function measured(ms: number | undefined): number | undefined {
  return ms === failedMs ? undefined : ms;
}

function shown(state: BreakerState): BreakerStatus['breaker'] {
  return state === 'probing' ? 'half-open' : state;
}
