import type { Registry } from 'prom-client';
import type { FleetCounts } from '../shared/fleet/fleet-counts.ts';
import { followFleet } from '../shared/fleet/follow-fleet.ts';
import { createNoteProcess, type FleetProcess, type WorkerLoad } from '../shared/fleet/note-process.ts';
import {
  type ParsedPlanFile,
  type PlanFile,
  type PlanFileSource,
  poolsOf,
  queueMsMax,
} from '../shared/plan-file/plan-file.ts';
import type { Log } from '../shared/process/log.ts';
import {
  createPlanFileInForce,
  observePlanFile,
  type PlanFileInForce,
  type PlanFileStatus,
  type PlanFileWatch,
  watchPlanFile,
} from '../shared/process/watch-plan-file.ts';
import type { Redis } from '../shared/redis/connections.ts';

interface OpenedPlanFile {
  planFile: PlanFileInForce;
  /** The pools of this worker: those of its settings, or all pools of the plan file. */
  pools(): readonly string[];
  status(): PlanFileStatus;
  /**
   * Watches the file, and makes this worker known to the other processes, until it is disposed of. Resolves once they know
   * it.
   */
  follow(redis: Redis, load: () => WorkerLoad, counts: Pick<FleetCounts, 'take'>): Promise<AsyncDisposable>;
}

/** Opens the plan file of a worker, with its gauges. */
export function openPlanFile({
  source,
  pools: ownPools,
  workerId,
  registry,
  log,
}: {
  source: PlanFileSource;
  /** Undefined: all pools of the plan file. */
  pools: readonly string[] | undefined;
  workerId: string;
  registry: Registry;
  log: Log;
}): OpenedPlanFile {
  const startedAt = Date.now();
  const planFile = createPlanFileInForce(source.initial);
  const { pools, read, noted } = createServedPlanFile({ planFile, pools: ownPools, log });
  let watch: PlanFileWatch | undefined;
  const status = () => ({ generation: planFile.generation(), issues: watch?.issues() ?? [] });
  observePlanFile(registry, status);

  async function follow(redis: Redis, load: () => WorkerLoad, counts: Pick<FleetCounts, 'take'>) {
    const parts = new AsyncDisposableStack();
    const fleet = parts.use(
      followFleet({
        noteProcess: createNoteProcess(redis),
        describe() {
          const { generation, issues } = status();
          const own = { kind: 'worker' as const, pools: [...pools()], startedAt };
          return { id: workerId, ...own, generation, issues: issues.length };
        },
        load,
        counts,
        onNoted: noted,
        isWaiting: () => false,
        log,
      }),
    );
    watch = parts.use(watchPlanFile({ source, planFile, onChanged: read, log }));
    planFile.onReplaced(fleet.changed);
    await fleet.noted;
    return parts;
  }

  return { planFile, pools, status, follow };
}

/**
 * A request keeps its plan file from its beginning. Its body may take this long to arrive before it is queued (`ingress/run-ingress.ts`).
 */
const bodyMs = 30_000;

/**
 * A worker works with a new plan file at once, and continues to serve the models that have gone until no ingress can queue a request for
 * them (contract.md#k2-generations).
 */
export function createServedPlanFile(deps: {
  planFile: PlanFileInForce;
  /** Undefined: all pools of the plan file. */
  pools: readonly string[] | undefined;
  log: Log;
  /** Milliseconds of a monotonic clock. */
  now?: () => number;
}) {
  const { planFile, log, now = () => performance.now() } = deps;
  const poolsIn = (file: PlanFile) => deps.pools ?? poolsOf(file);
  let latest: ParsedPlanFile = { planFile: planFile.current(), generation: planFile.generation() };
  /** Since when every ingress works with the latest plan file. */
  let switchedAt: number | undefined;
  /** The longest of all whose requests may still wait. */
  let queueMs = queueMsMax(latest.planFile);

  function serve(next: ParsedPlanFile): void {
    const earlier = planFile.current();
    latest = next;
    switchedAt = undefined;
    queueMs = Math.max(queueMs, queueMsMax(next.planFile));
    const [before, after] = [poolsIn(earlier), poolsIn(next.planFile)];
    const served = withRetiredModels(next.planFile, earlier, {
      servesEarlier: (pool) => before.includes(pool),
      servesNext: (pool) => after.includes(pool),
    });
    planFile.replace({ planFile: served, generation: next.generation });
    log.info({ generation: next.generation, retiring: served !== next.planFile }, 'the plan file was replaced');
  }

  return {
    /** The pools of this worker: those of its settings, or all pools of the plan file. */
    pools: (): readonly string[] => poolsIn(planFile.current()),
    /** The file has changed. */
    read(next: ParsedPlanFile | undefined): void {
      if (next !== undefined && next.generation !== latest.generation) serve(next);
    },
    /** These processes are alive. */
    noted(processes: readonly FleetProcess[]): void {
      if (planFile.current() === latest.planFile) return;
      const ingresses = processes.filter(({ kind }) => kind === 'ingress');
      const haveSwitched = ingresses.every(({ generation }) => generation === latest.generation);
      switchedAt = haveSwitched ? (switchedAt ?? now()) : undefined;
      if (switchedAt === undefined || now() - switchedAt < queueMs + bodyMs) return;
      queueMs = queueMsMax(latest.planFile);
      planFile.replace(latest);
      log.info({ generation: latest.generation }, 'models that are no longer in the plan file are no longer served');
    },
  };
}

/**
 * Returns the plan file with the models that this worker has served and would serve no longer: those that have gone, and those that have
 * moved to a pool of other workers. Their backends stay, too.
 */
function withRetiredModels(
  next: PlanFile,
  earlier: Pick<PlanFile, 'models' | 'backends'>,
  { servesEarlier, servesNext }: Record<'servesEarlier' | 'servesNext', (pool: string) => boolean>,
): PlanFile {
  const retired = Object.entries(earlier.models).flatMap(([name, was]) => {
    const model = next.models[name];
    if (!servesEarlier(was.pool) || (model !== undefined && servesNext(model.pool))) return [];
    return [[name, model === undefined ? was : { ...model, pool: was.pool }] as const];
  });
  if (retired.length === 0) return next;
  const kept = retired.flatMap(([, { backends }]) => backends).filter((name) => next.backends[name] === undefined);
  const backends = kept.flatMap((name) => {
    const backend = earlier.backends[name];
    return backend === undefined ? [] : [[name, backend] as const];
  });
  return {
    ...next,
    models: named([...Object.entries(next.models), ...retired]),
    backends: named([...Object.entries(next.backends), ...backends]),
  };
}

/** Without a prototype, as in every plan file. */
function named<Value>(entries: readonly (readonly [string, Value])[]): Readonly<Record<string, Value>> {
  return Object.freeze(Object.assign(Object.create(null), Object.fromEntries(entries)));
}
