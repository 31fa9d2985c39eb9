import type { Lane } from '../../shared/lane.ts';
import { createBusyLoop } from '../turns/busy-loop.ts';
import type { BodiesHeld } from './bodies-held.ts';
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
  bodies: Pick<BodiesHeld, 'furtherJobs'>;
  pace?: LinePace;
}): JobRoom {
  const { states, concurrency, batchConcurrency, bodies, pace = createLinePace() } = deps;
  let taking = 0;
  let isClosed = false;

  const jobsOf = ({ worker, taking: takings }: QueueState) => worker.running() + takings;

  function has(state: QueueState): boolean {
    if (isClosed || taking >= bodies.furtherJobs()) return false;
    if (state.lane === 'interactive') return jobsOf(state) < concurrency;
    const ofOwner = states.ofOwner(state.owner).reduce((sum, each) => sum + jobsOf(each), 0);
    return ofOwner < concurrency && jobsOf(state) < batchConcurrency;
  }

  const canTake = (state: QueueState) => has(state) && state.hasSlot();

  return {
    ...{ has, canTake },
    isDue: ({ lane }) => lane === 'interactive' || pace.isDue(),
    awaited: (except) =>
      states
        .taken()
        .filter((state) => state.isEmpty && !except?.has(state.worker.markerKey) && canTake(state))
        .map(({ worker }) => worker.markerKey),
    beginTaking(state) {
      pace.note(state.lane);
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

export interface LinePace {
  /** Whether a line of a batch may begin. */
  isDue(): boolean;
  /** A job of this lane is being taken. */
  note(lane: Lane): void;
}

/** A client that sent a request this long ago no longer counts. */
const clientMs = 5_000;
const paceMs = 250;

/** While clients use this worker and its event loop is busy, lines begin one at a time, four a second (contract.md#v3-rests). */
export function createLinePace({ now = () => performance.now(), isBusy = createBusyLoop() } = {}): LinePace {
  let clientAt = Number.NEGATIVE_INFINITY;
  let lineAt = Number.NEGATIVE_INFINITY;
  return {
    isDue: () => !isBusy() || now() - clientAt > clientMs || now() - lineAt >= paceMs,
    note(lane) {
      if (lane === 'interactive') clientAt = now();
      else lineAt = now();
    },
  };
}
