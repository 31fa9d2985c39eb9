import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { type BackendHealth, createBackendHealth } from './backend-health.ts';
import type { BreakerState } from './breaker.ts';

/** The breaker of a backend for a model. */
export type BreakerStatus = { model: string; backend: string; breaker: Exclude<BreakerState, 'probing'> };

/** The health of each backend, for each model of this process's pools. */
export interface ServedBackends extends Disposable {
  /** In the order of the plan file. */
  ofModel(model: string): ReadonlyMap<string, BackendHealth>;
  names(): ReadonlySet<string>;
  breakerStatuses(): BreakerStatus[];
}

const none: ReadonlyMap<string, BackendHealth> = new Map();

export function createServedBackends(deps: {
  planFile: Pick<PlanFile, 'models' | 'timeouts'>;
  pools: readonly string[];
  onBreaker: (status: BreakerStatus) => void;
  random: () => number;
  now: () => number;
}): ServedBackends {
  const { planFile, pools, onBreaker, random, now } = deps;
  const probeMs = planFile.timeouts.firstTokenMs;
  const served = new Map<string, Map<string, BackendHealth>>();
  for (const [model, { pool, backends }] of Object.entries(planFile.models)) {
    if (!pools.includes(pool)) continue;
    served.set(model, new Map([...new Set(backends)].map((name) => [name, serve(model, name)])));
  }
  const names = new Set([...served.values()].flatMap((backends) => [...backends.keys()]));

  function serve(model: string, backend: string): BackendHealth {
    const report = (state: BreakerState) => onBreaker({ model, backend, breaker: shown(state) });
    return createBackendHealth({ onBreaker: report, probeMs, random, now });
  }

  return {
    ofModel: (model) => served.get(model) ?? none,
    names: () => names,
    breakerStatuses: () =>
      [...served].flatMap(([model, backends]) =>
        [...backends].map(([backend, health]) => ({ model, backend, breaker: shown(health.breaker()) })),
      ),
    [Symbol.dispose]() {
      for (const backends of served.values()) for (const health of backends.values()) health[Symbol.dispose]();
    },
  };
}

function shown(state: BreakerState): BreakerStatus['breaker'] {
  return state === 'probing' ? 'half-open' : state;
}
