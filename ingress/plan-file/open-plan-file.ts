import type { Registry } from 'prom-client';
import { ulid } from 'ulid';
import { type Fleet, followFleet } from '../../shared/fleet/follow-fleet.ts';
import { createNoteProcess, type IngressLoad, type ProcessLoad } from '../../shared/fleet/note-process.ts';
import type { PlanFileSource } from '../../shared/plan-file/plan-file.ts';
import type { Log } from '../../shared/process/log.ts';
import {
  createPlanFileInForce,
  observePlanFile,
  type PlanFileInForce,
  type PlanFileStatus,
  type PlanFileWatch,
  watchPlanFile,
} from '../../shared/process/watch-plan-file.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { createPlanFileSwitch } from './switch-plan-file.ts';

/** The processes that are alive, and what each of them does. */
export type KnownFleet = Pick<Fleet, 'processes'> & { loads: () => Promise<ReadonlyMap<string, ProcessLoad>> };

export interface OpenedPlanFile {
  planFile: PlanFileInForce;
  status(): PlanFileStatus;
  /**
   * Watches the file, and makes this ingress known to the other processes, until it is disposed of. Resolves once they know
   * it.
   */
  follow(redis: Redis, load: () => IngressLoad): Promise<AsyncDisposable & KnownFleet>;
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

  async function follow(redis: Redis, load: () => IngressLoad) {
    const parts = new AsyncDisposableStack();
    const noteProcess = createNoteProcess(redis);
    const fleet = parts.use(
      followFleet({
        noteProcess,
        describe: () => ({ id, kind: 'ingress', startedAt, ...status(), issues: status().issues.length }),
        load,
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
    return { processes: fleet.processes, loads: noteProcess.loads, [Symbol.asyncDispose]: () => parts.disposeAsync() };
  }

  return { planFile, status, follow };
}
