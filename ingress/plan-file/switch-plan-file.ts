import type { FleetProcess } from '../../shared/fleet/note-process.ts';
import { type ParsedPlanFile, type PlanFile, poolsOf } from '../../shared/plan-file/plan-file.ts';
import type { Log } from '../../shared/process/log.ts';
import type { PlanFileInForce } from '../../shared/process/watch-plan-file.ts';

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
      log.info({ generation: next.generation }, 'the plan file was replaced');
      next = undefined;
    },
    isWaiting: (): boolean => next !== undefined,
    /** The plan file that waits, and the pools that have no worker with it yet. */
    next: (): { generation: string; waitsFor: string[] } | undefined =>
      next && { generation: next.generation, waitsFor },
  };
}

/** Decides when an ingress works with a plan file that it has read. */
export type PlanFileSwitch = ReturnType<typeof createPlanFileSwitch>;

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
