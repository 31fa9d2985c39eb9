import type { Registry } from 'prom-client';
import { followFleet } from '../shared/fleet/follow-fleet.ts';
import { createNoteProcess } from '../shared/fleet/note-process.ts';
import type { WorkerLoad } from '../shared/fleet/process-load.ts';
import { createPlanFileInForce, type PlanFileInForce } from '../shared/plan-file/live/plan-file-in-force.ts';
import { observePlanFile, type PlanFileStatus } from '../shared/plan-file/live/plan-file-status.ts';
import { type PlanFileWatch, watchPlanFile } from '../shared/plan-file/live/watch-plan-file.ts';
import type { PlanFileSource } from '../shared/plan-file/plan-file-source.ts';
import type { Log } from '../shared/process/log.ts';
import type { Redis } from '../shared/redis/connections.ts';
import { createServedPlanFile } from './serve-plan-file.ts';

export interface OpenedPlanFile {
  planFile: PlanFileInForce;
  /** The pools of this worker: those of its settings, or all pools of the plan file. */
  pools(): readonly string[];
  status(): PlanFileStatus;
  /**
   * Watches the file, and makes this worker known to the other processes, until it is disposed of. Resolves once they know
   * it.
   */
  follow(redis: Redis, load: () => WorkerLoad): Promise<AsyncDisposable>;
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

  async function follow(redis: Redis, load: () => WorkerLoad) {
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
