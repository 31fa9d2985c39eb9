import type { Registry } from 'prom-client';
import { ulid } from 'ulid';
import type { FleetCounts } from '../shared/fleet/fleet-counts.ts';
import { type Fleet, followFleet } from '../shared/fleet/follow-fleet.ts';
import {
  createNoteProcess,
  type FleetProcess,
  type IngressLoad,
  type ProcessLoad,
} from '../shared/fleet/note-process.ts';
import { type ParsedPlanFile, type PlanFile, type PlanFileSource, poolsOf } from '../shared/plan-file/plan-file.ts';
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

/** The processes that are alive, and what each of them does. */
export type KnownFleet = Pick<Fleet, 'processes'> & {
  loads: () => Promise<ReadonlyMap<string, ProcessLoad>>;
  /** What all processes have counted in these steps of time. */
  readCounts: ReturnType<typeof createNoteProcess>['counts'];
};

export interface OpenedPlanFile {
  planFile: PlanFileInForce;
  status(): PlanFileStatus;
  /**
   * Watches the file, and makes this ingress known to the other processes, until it is disposed of. Resolves once they know
   * it.
   */
  follow(redis: Redis, load: () => IngressLoad, counts: FleetCounts): Promise<AsyncDisposable & KnownFleet>;
}

/** Opens the plan file of an ingress, with its gauges. */
export function openPlanFile({
  source,
  registry,
  log,
}: {
  source: PlanFileSource;
  registry: Registry;
  log: Log;
}): OpenedPlanFile {
  const [id, startedAt] = [ulid(), Date.now()];
  const planFile = createPlanFileInForce(source.initial);
  const switching = createPlanFileSwitch({ planFile, log });
  let watch: PlanFileWatch | undefined;
  const status = () => ({
    generation: planFile.generation(),
    next: switching.next(),
    issues: watch?.issues() ?? [],
  });
  observePlanFile(registry, status);

  async function follow(redis: Redis, load: () => IngressLoad, counts: FleetCounts) {
    const parts = new AsyncDisposableStack();
    const noteProcess = createNoteProcess(redis);
    const fleet = parts.use(
      followFleet({
        noteProcess,
        describe: () => ({ id, kind: 'ingress', startedAt, ...status(), issues: status().issues.length }),
        load,
        counts,
        onNoted: switching.noted,
        isWaiting: switching.isWaiting,
        log,
      }),
    );
    const onChanged = (next: Parameters<typeof switching.read>[0]) => {
      switching.read(next);
      fleet.changed();
    };
    watch = parts.use(watchPlanFile({ source, planFile, onChanged, log }));
    planFile.onReplaced(fleet.changed);
    await fleet.noted;
    const { loads, counts: readCounts } = noteProcess;
    return { processes: fleet.processes, loads, readCounts, [Symbol.asyncDispose]: () => parts.disposeAsync() };
  }

  return { planFile, status, follow };
}

/**
 * An ingress switches once each pool of the new plan file has a worker that works with it, so that every request that it admits by the new
 * plan file finds a worker that knows its model (contract.md#k2-generations).
 */
export function createPlanFileSwitch({ planFile, log }: { planFile: PlanFileInForce; log: Log }) {
  let next: ParsedPlanFile | undefined;
  let waitsFor: string[] = [];

  return {
    /** The file has changed. */
    read(read: ParsedPlanFile | undefined): void {
      next = read?.generation === planFile.generation() ? undefined : read;
      waitsFor = next === undefined ? [] : poolsOf(next.planFile);
    },
    /** These processes are alive. */
    noted(processes: readonly FleetProcess[]): void {
      if (next === undefined) return;
      const workers = processes.filter(({ kind }) => kind === 'worker');
      waitsFor = poolsWithout(next, { workers, present: planFile.current() });
      if (waitsFor.length > 0) return;
      planFile.replace(next);
      const { backends, models } = next.planFile;
      const counts = { backends: Object.keys(backends).length, models: Object.keys(models).length };
      log.info({ generation: next.generation, ...counts }, 'the plan file was replaced');
      next = undefined;
    },
    isWaiting: (): boolean => next !== undefined,
    /** The plan file that waits, and the pools that have no worker with it yet. */
    next: (): { generation: string; waitsFor: string[] } | undefined =>
      next && { generation: next.generation, waitsFor },
  };
}

/** The pools that have no worker with this plan file. A pool that is in force although it has no worker at all keeps nothing back. */
function poolsWithout(
  { planFile, generation }: ParsedPlanFile,
  { workers, present }: { workers: readonly FleetProcess[]; present: PlanFile },
): string[] {
  const served = new Set(workers.filter((worker) => worker.generation === generation).flatMap(({ pools }) => pools));
  const alive = new Set(workers.flatMap(({ pools }) => pools));
  const inForce = new Set(poolsOf(present));
  return poolsOf(planFile).filter((pool) => !served.has(pool) && (alive.has(pool) || !inForce.has(pool)));
}
