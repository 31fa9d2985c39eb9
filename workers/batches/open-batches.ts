import type { LaneWork } from '../queue/lane-worker.ts';
import type { BatchSupervisor } from './batch-supervisor.ts';
import { type LineWorkDeps, openLineWork } from './open-line-work.ts';
import { openSupervision, type SupervisionDeps } from './open-supervision.ts';

/** The work of the batch lane, and the supervision of batches, which starts when `supervise` is called. */
type Batches = AsyncDisposable & { work: LaneWork; supervise(): BatchSupervisor };

/** Opens all that a worker needs for batches. */
export function openBatches(deps: LineWorkDeps & SupervisionDeps): Batches {
  const owned = new AsyncDisposableStack();
  const { work, finishAttempt, writeResult } = owned.use(openLineWork(deps));
  return {
    work,
    supervise: () => owned.use(openSupervision({ ...deps, finishAttempt, writeResult })).supervisor,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
