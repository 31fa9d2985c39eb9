import type { Lane } from '../../shared/lane.ts';
import type { Reserved } from '../backends/backend-slots.ts';
import type { BodiesHeld } from './bodies-held.ts';
import type { LaneWorker } from './lane-worker.ts';

/** A queue whose jobs are dispatched. */
export type DispatchedQueue = {
  lane: Lane;
  /** Its model. */
  owner: string;
  worker: LaneWorker;
  /** Reserves a slot for the next job, before the job is known. */
  reserve: () => Reserved;
  /** Whether a job could be taken now. */
  hasSlot: () => boolean;
};

/** A queue, and what the dispatcher knows of it. */
export type QueueState = DispatchedQueue & {
  /** As far as is known, no job waits in it. */
  isEmpty: boolean;
  /** Takings in progress, and the latest of them. */
  taking: number;
  latest: Promise<void> | undefined;
  /** How many takings in a row have found a job. */
  found: number;
  /** Its marker came after the latest taking began, which may have been too early for that job. */
  isMarked: boolean;
};

export function createQueueState(queue: DispatchedQueue): QueueState {
  return { ...queue, isEmpty: false, taking: 0, latest: undefined, found: 0, isMarked: false };
}

/** Whether this worker has room for further jobs, by its concurrency and its memory. */
export interface JobRoom {
  has(state: QueueState): boolean;
  /** Whether there is also a slot of a backend. */
  canTake(state: QueueState): boolean;
  /** The markers of queues that are known to be empty, and from which a job could be taken. */
  awaited(except?: ReadonlySet<string>): string[];
  beginTaking(state: QueueState): void;
  endTaking(state: QueueState): void;
  /** From now on there is no room. */
  close(): void;
  isClosed(): boolean;
}

export function createJobRoom(deps: {
  states: readonly QueueState[];
  concurrency: number;
  batchConcurrency: number;
  bodies: Pick<BodiesHeld, 'furtherJobs'>;
}): JobRoom {
  const { states, concurrency, batchConcurrency, bodies } = deps;
  const byOwner = Map.groupBy(states, ({ owner }) => owner);
  let taking = 0;
  let isClosed = false;

  const jobsOf = ({ worker, taking: takings }: QueueState) => worker.running() + takings;

  function has(state: QueueState): boolean {
    if (isClosed || taking >= bodies.furtherJobs()) return false;
    if (state.lane === 'interactive') return jobsOf(state) < concurrency;
    const ofOwner = (byOwner.get(state.owner) ?? []).reduce((sum, each) => sum + jobsOf(each), 0);
    return ofOwner < concurrency && jobsOf(state) < batchConcurrency;
  }

  const canTake = (state: QueueState) => has(state) && state.hasSlot();

  return {
    ...{ has, canTake },
    awaited: (except) =>
      states
        .filter((state) => state.isEmpty && !except?.has(state.worker.markerKey) && canTake(state))
        .map(({ worker }) => worker.markerKey),
    beginTaking(state) {
      state.taking++;
      taking++;
    },
    endTaking(state) {
      state.taking--;
      taking--;
    },
    close() {
      isClosed = true;
    },
    isClosed: () => isClosed,
  };
}
