import { type Lane, lanes } from '../../shared/lane.ts';
import type { Log } from '../../shared/process/log.ts';
import type { StopReason } from '../failover/run.ts';
import type { HeldPayloads } from './held-payloads.ts';
import { createJobRoom } from './job-room.ts';
import type { LinePace } from './line-pace.ts';
import { createQueueStates, type DispatchedQueue, type QueueState, type QueueStates } from './queue-state.ts';
import { createJobTaker } from './take-jobs.ts';

/** Takes jobs from all queues of this worker, each only when a backend has room for it (contract.md#o2-slot-before-job). */
export interface Dispatcher {
  /** Takes jobs from these queues from now on. Jobs of others continue to their end. */
  serve(queues: readonly DispatchedQueue[]): void;
  /** Slots may have become free, or have gone. */
  slotsChanged(): void;
  /** There may be a job in the queue of this marker, now or at `at` (milliseconds since 1970). Resolves when the queue was checked. */
  mayHaveJob(marker: string, at: number): Promise<void> | undefined;
  /** The markers of queues that are known to be empty, and from which a job could be taken. */
  awaited(except?: ReadonlySet<string>): string[];
  /** Checks whether jobs wait in queues without a slot. These are not awaited. */
  checkFull(): Promise<void>;
  cancel(requestId: string, reason: StopReason): void;
  requeueAll(): void;
  /** The number of jobs in progress. */
  running(): number;
  /** Takes no more jobs, and resolves when those in progress have ended. */
  finish(): Promise<void>;
}

/** Pauses of backends end without an event. */
const pumpAgainMs = 250;
const nextCheckMsMax = 60_000;

export function createDispatcher(deps: {
  /** Called with a queue that is no longer served, once its last job has ended. */
  onGone: (queue: DispatchedQueue) => void;
  /** Max concurrent jobs of one model. Lines of batches use what is left of that, and at most `batchConcurrency`. */
  concurrency: number;
  batchConcurrency: number;
  payloads: Pick<HeldPayloads, 'furtherJobs'>;
  linePace: Pick<LinePace, 'isDue' | 'noteTaking'>;
  /** Splits markers into groups that are looked for separately. In a cluster, some of them may not be available. */
  groupMarkers: (markers: readonly string[]) => string[][];
  /** Returns those of the markers of a group that are set. */
  findMarkers: (markers: readonly string[]) => Promise<ReadonlySet<string>>;
  /** Sets a marker again that was taken from a queue which is no longer served: other workers may serve it. */
  putBack: (marker: string, at: number) => void;
  /** Called when `awaited` may have changed. */
  onAwaited: () => void;
  log: Log;
}): Dispatcher {
  const states = createQueueStates(deps.onGone);
  const room = createJobRoom({ ...deps, states });
  const timers = createDueTimers(pump);
  const taker = createJobTaker({ room, log: deps.log, onEnd, onNone: timers.set });
  const serveInTurn = createTurns(states);
  const pumpSoon = createLater(pump, pumpAgainMs);
  let isPumping = false;

  function onEnd(): void {
    states.noteEnd();
    pump();
  }

  function pump(): void {
    if (isPumping) return;
    isPumping = true;
    for (const lane of lanes) while (serveInTurn(lane, taker.begin));
    isPumping = false;
    if (!room.isClosed() && states.taken().some(({ isEmpty }) => !isEmpty)) pumpSoon.begin();
    deps.onAwaited();
  }

  function checkNow(state: QueueState): Promise<void> | undefined {
    state.isMarked = true;
    state.isEmpty = false;
    pump();
    if (state.taking > 0) return state.latest;
    // There is no more room. Another worker may have some.
    state.isMarked = false;
    state.worker.setMarker();
    return undefined;
  }

  async function checkMarkers(markers: readonly string[]): Promise<void> {
    const set = await deps.findMarkers(markers);
    for (const marker of markers) {
      const state = states.withMarker(marker);
      if (state !== undefined) state.isEmpty = !state.isMarked && !set.has(marker);
    }
    if (set.size > 0) pump();
  }

  return {
    serve(queues) {
      states.replace(queues);
      pump();
    },
    slotsChanged: pump,
    mayHaveJob(marker, at) {
      const state = states.withMarker(marker);
      if (state === undefined) {
        deps.putBack(marker, at);
        return undefined;
      }
      if (at <= Date.now()) return checkNow(state);
      timers.set(state, at);
      return undefined;
    },
    awaited: room.awaited,
    async checkFull() {
      const full = states.taken().filter((state) => room.has(state) && !state.hasSlot());
      await Promise.all(deps.groupMarkers(full.map(({ worker }) => worker.markerKey)).map(checkMarkers));
    },
    ...jobsOf(states),
    finish() {
      room.close();
      pumpSoon.cancel();
      timers.close();
      return taker.finished();
    },
  };
}

/** The operations on the jobs in progress of all queues. */
function jobsOf(states: Pick<QueueStates, 'withJobs'>): Pick<Dispatcher, 'cancel' | 'requeueAll' | 'running'> {
  return {
    cancel(requestId, reason) {
      for (const { worker } of states.withJobs()) worker.cancel(requestId, reason);
    },
    requeueAll() {
      for (const { worker } of states.withJobs()) worker.requeueAll();
    },
    running: () => states.withJobs().reduce((sum, { worker }) => sum + worker.running(), 0),
  };
}

/** Serves each queue of a lane once. Queues served last come last the next time, so that models that share a backend take turns. */
function createTurns(states: Pick<QueueStates, 'taken'>) {
  let order: readonly QueueState[] = [];
  let ordered: readonly QueueState[] = [];

  /** New queues come last. */
  function followStates(): void {
    const taken = states.taken();
    if (taken === ordered) return;
    ordered = taken;
    const known = order.filter((state) => taken.includes(state));
    order = [...known, ...taken.filter((state) => !known.includes(state))];
  }

  return function serveInTurn(lane: Lane, begin: (state: QueueState) => boolean): boolean {
    followStates();
    const served = new Set(order.filter((state) => state.lane === lane && begin(state)));
    order = [...order.filter((state) => !served.has(state)), ...served];
    return served.size > 0;
  };
}

/** Calls `work` once, `ms` after the first `begin` since its last call. */
function createLater(work: () => void, ms: number) {
  let timer: NodeJS.Timeout | undefined;
  return {
    begin(): void {
      timer ??= setTimeout(() => {
        timer = undefined;
        work();
      }, ms);
    },
    cancel: () => clearTimeout(timer),
  };
}

/** Calls `pump` when a delayed job of a queue is due. */
function createDueTimers(pump: () => void) {
  const timers = new Map<QueueState, NodeJS.Timeout>();
  let isClosed = false;
  return {
    /** `at`: in milliseconds since 1970; 0: there is no delayed job. */
    set(state: QueueState, at: number): void {
      if (at === 0 || isClosed) return;
      clearTimeout(timers.get(state));
      const onDue = () => {
        timers.delete(state);
        state.isEmpty = false;
        pump();
      };
      timers.set(state, setTimeout(onDue, Math.min(nextCheckMsMax, Math.max(1, at - Date.now()))));
    },
    close(): void {
      isClosed = true;
      for (const timer of timers.values()) clearTimeout(timer);
    },
  };
}
