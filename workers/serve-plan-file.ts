import type { FleetProcess } from '../shared/fleet/note-process.ts';
import type { PlanFileInForce } from '../shared/plan-file/live/plan-file-in-force.ts';
import type { ParsedPlanFile, PlanFile } from '../shared/plan-file/plan-file.ts';
import { poolsOf } from '../shared/plan-file/pools-of.ts';
import { queueMsMax } from '../shared/plan-file/queue-times.ts';
import type { Log } from '../shared/process/log.ts';
import { withRetiredModels } from './with-retired-models.ts';

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

/** Decides which models a worker serves while the plan file changes. */
export type ServedPlanFile = ReturnType<typeof createServedPlanFile>;
