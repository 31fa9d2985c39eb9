import type { Log } from '../../shared/process/log.ts';
import { type Lane, lanes } from '../../shared/redis/keys.ts';
import type { ReserveOutcome } from '../backends/backend-slots.ts';
import type { StopReason } from '../failover/run.ts';
import type { HeldPayloads, LaneWorker, LockedJob } from './lane-worker.ts';
import type { LinePace } from './line-pace.ts';
import {
  createJobRoom,
  createQueueStates,
  type DispatchedQueue,
  type JobRoom,
  type QueueState,
  type QueueStates,
} from './queue-state.ts';

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
    const served = order.filter((state) => state.lane === lane && begin(state));
    if (served.length > 0) order = [...order.filter((state) => !served.includes(state)), ...served];
    return served.length > 0;
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

/** A queue with many jobs is emptied by this many takings at once. */
const takingsAtOnceMax = 16;
const failedPauseMs = 1_000;

/** Takes jobs from queues and runs them. */
function createJobTaker(deps: {
  room: JobRoom;
  /** A taking or a job has ended. */
  onEnd: () => void;
  /** No job was found. The next delayed one is due at this time (milliseconds since 1970); 0: there is none. */
  onNone: (state: QueueState, nextAt: number) => void;
  log: Log;
}) {
  const { room, onEnd, onNone, log } = deps;
  const inProgress = new Set<Promise<void>>();

  function track(work: Promise<void>): Promise<void> {
    const tracked = work.finally(() => {
      inProgress.delete(tracked);
      onEnd();
    });
    inProgress.add(tracked);
    return tracked;
  }

  async function take(state: QueueState, reserved: ReserveOutcome): Promise<void> {
    const reservation = reserved.outcome === 'reserved' ? reserved.reservation : undefined;
    state.isMarked = false;
    room.beginTaking(state);
    const taken = await state.worker.take().catch((error: unknown): { nextAt: number } => {
      log.warn({ err: error }, 'a job could not be taken; trying again');
      return { nextAt: Date.now() + failedPauseMs };
    });
    room.endTaking(state);
    if ('job' in taken) return run(state, taken, reservation);
    state.found = 0;
    state.isEmpty = !state.isMarked;
    // Looks for jobs for the slot, but no longer in this queue.
    reservation?.release();
    onNone(state, taken.nextAt);
  }

  function run(state: QueueState, taken: LockedJob, reservation: Parameters<LaneWorker['run']>[1]): void {
    state.found = taken.more ? state.found + 1 : 0;
    // If there are more jobs, the marker brings the next taking, of this worker or of one that waits. Two cases do not wait for it: a queue
    // that has given several jobs, and one whose job took the last slot, because it is not awaited until there is another slot.
    if (state.found < 2 && state.taking === 0) state.isEmpty = !state.isMarked && room.canTake(state);
    state.jobs++;
    track(
      state.worker.run(taken, reservation).finally(() => {
        state.jobs--;
      }),
    );
  }

  return {
    /** Takes a job of this queue, if there may be one and there is room for it. False if not. */
    begin(state: QueueState): boolean {
      if (state.isEmpty || state.taking >= takingsMaxOf(state)) return false;
      if (!room.has(state) || !room.isDue(state)) return false;
      const reserved = state.reserve();
      if (reserved.outcome === 'full') return false;
      state.latest = track(take(state, reserved));
      return true;
    },
    /** Resolves when all takings and jobs have ended. */
    async finished(): Promise<void> {
      while (inProgress.size > 0) await Promise.all(inProgress);
    },
  };
}

/** More takings at once, the more jobs in a row were found: takings after the last job find nothing. */
function takingsMaxOf({ found }: QueueState): number {
  return Math.max(1, Math.min(takingsAtOnceMax, Math.floor(Math.sqrt(found))));
}
