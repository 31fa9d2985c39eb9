import type { Lane } from '../../shared/redis/keys.ts';
import type { ReserveOutcome } from '../backends/backend-slots.ts';
import type { HeldPayloads, LaneWorker } from './lane-worker.ts';
import type { LinePace } from './line-pace.ts';

/** A queue whose jobs are dispatched. */
export type DispatchedQueue = {
  lane: Lane;
  /** Its model. */
  owner: string;
  worker: LaneWorker;
  /** Reserves a slot for the next job, before the job is known. */
  reserve: () => ReserveOutcome;
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
  /** Jobs that were taken and have not ended in their queue. A job whose lock was released may still have to be ended there. */
  jobs: number;
  /** How many takings in a row have found a job and said that more wait. */
  found: number;
  /** Its marker came after the latest taking began, which may have been too early for that job. */
  isMarked: boolean;
};

function createQueueState(queue: DispatchedQueue): QueueState {
  return { ...queue, isEmpty: false, taking: 0, latest: undefined, jobs: 0, found: 0, isMarked: false };
}

/** `onGone` is called with each queue that has gone, once its last job has ended. */
export function createQueueStates(onGone: (queue: DispatchedQueue) => void) {
  let taken: QueueState[] = [];
  let byOwner = new Map<string, QueueState[]>();
  let byMarker = new Map<string, QueueState>();
  const leaving = new Set<QueueState>();

  /** A taking or a job has ended. */
  function noteEnd(): void {
    for (const state of leaving) {
      if (state.taking + state.jobs > 0) continue;
      leaving.delete(state);
      onGone(state);
    }
  }

  return {
    /** Those from which jobs are taken. */
    taken: (): readonly QueueState[] => taken,
    ofOwner: (owner: string): readonly QueueState[] => byOwner.get(owner) ?? [],
    withMarker: (marker: string): QueueState | undefined => byMarker.get(marker),
    /** Also those that have gone, until their last job has ended. */
    withJobs: (): readonly QueueState[] => [...taken, ...leaving],
    replace(queues: readonly DispatchedQueue[]): void {
      const known = new Map(taken.map((state) => [state.worker, state]));
      taken = queues.map((queue) => known.get(queue.worker) ?? createQueueState(queue));
      byOwner = Map.groupBy(taken, ({ owner }) => owner);
      byMarker = new Map(taken.map((state) => [state.worker.markerKey, state]));
      const kept = new Set(taken);
      for (const state of known.values()) if (!kept.has(state)) leaving.add(state);
      noteEnd();
    },
    noteEnd,
  };
}

/** The queues of a dispatcher, which come and go with the plan file. */
export type QueueStates = ReturnType<typeof createQueueStates>;

/** Whether this worker has room for further jobs, by its concurrency and its memory. */
export interface JobRoom {
  has(state: QueueState): boolean;
  /** False if a line of a batch has to wait because clients use this worker, and it is busy. */
  isDue(state: QueueState): boolean;
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
  states: Pick<QueueStates, 'taken' | 'ofOwner'>;
  concurrency: number;
  batchConcurrency: number;
  payloads: Pick<HeldPayloads, 'furtherJobs'>;
  linePace: Pick<LinePace, 'isDue' | 'noteTaking'>;
}): JobRoom {
  const { states, concurrency, batchConcurrency, payloads, linePace } = deps;
  let taking = 0;
  let isClosed = false;

  const jobsOf = ({ worker, taking: takings }: QueueState) => worker.running() + takings;

  function has(state: QueueState): boolean {
    if (isClosed || taking >= payloads.furtherJobs()) return false;
    if (state.lane === 'interactive') return jobsOf(state) < concurrency;
    const ofOwner = states.ofOwner(state.owner).reduce((sum, each) => sum + jobsOf(each), 0);
    return ofOwner < concurrency && jobsOf(state) < batchConcurrency;
  }

  const canTake = (state: QueueState) => has(state) && state.hasSlot();

  return {
    has,
    canTake,
    isDue: ({ lane }) => lane === 'interactive' || linePace.isDue(),
    awaited: (except) =>
      states
        .taken()
        .filter((state) => state.isEmpty && !except?.has(state.worker.markerKey) && canTake(state))
        .map(({ worker }) => worker.markerKey),
    beginTaking(state) {
      linePace.noteTaking(state.lane);
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
