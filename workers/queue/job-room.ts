import type { HeldPayloads } from './held-payloads.ts';
import type { LinePace } from './line-pace.ts';
import type { QueueState, QueueStates } from './queue-state.ts';

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
