import { type Lane, lanes } from '../../shared/lane.ts';
import type { Log } from '../../shared/process/log.ts';
import type { StopReason } from '../answers/run.ts';
import type { Reserved } from '../backends/backend-slots.ts';
import type { BodiesHeld } from './bodies-held.ts';
import type { LaneWorker, LockedJob } from './lane-worker.ts';

/** One queue whose jobs are dispatched. */
export type DispatchedQueue = {
  lane: Lane;
  /** Its model. */
  owner: string;
  worker: LaneWorker;
  /** A slot for the next job, before the job is known; undefined if jobs of this queue find their slots later. */
  reserve: () => Reserved | undefined;
  /** Whether a job could be taken now. */
  hasSlot: () => boolean;
};

/** Takes jobs from all queues of this worker, each only when a backend has room for it. */
export interface Dispatcher {
  /** Slots may have become free, or have gone. */
  slotsChanged(): void;
  /** There may be a job in the queue of this marker, at once or from `at` on (milliseconds since 1970). Resolves when it was looked for. */
  mayHaveJob(marker: string, at: number): Promise<void> | undefined;
  /** The markers of queues that are empty as far as is known, and from which a job could be taken. */
  awaited(except?: ReadonlySet<string>): string[];
  /** Looks whether jobs wait in queues that this worker has no slot for, and so does not wait for. */
  checkFull(): Promise<void>;
  cancel(requestId: string, reason: StopReason): void;
  requeueAll(): void;
  /** Jobs in hand. */
  running(): number;
  /** Takes no further job, and resolves when those in hand have ended. */
  finish(): Promise<void>;
}

type State = DispatchedQueue & {
  /** No job waits in it, as far as is known. */
  isEmpty: boolean;
  /** Takings under way, and the latest of them. */
  taking: number;
  latest: Promise<void> | undefined;
  /** How many takings have found a job since one has not. */
  found: number;
  /** Its marker has come after the latest taking began, which may have been too early for that job. */
  isMarked: boolean;
  nextLook: NodeJS.Timeout | undefined;
};

/** A queue with many jobs is emptied by so many takings at once. */
const takingsAtOnceMax = 16;
/** Pauses of backends end without an event. */
const lookAgainMs = 250;
const failedPauseMs = 1_000;
const nextLookMsMax = 60_000;

export function createDispatcher(deps: {
  queues: readonly DispatchedQueue[];
  /** Jobs of one model at once, at most; lines of batches take what is left of that, and no more than `batchConcurrency`. */
  concurrency: number;
  batchConcurrency: number;
  bodies: Pick<BodiesHeld, 'furtherJobs'>;
  /** Those of these markers that are set. */
  findMarkers: (markers: readonly string[]) => Promise<ReadonlySet<string>>;
  /** What is awaited may have changed. */
  onAwaited: () => void;
  log: Log;
}): Dispatcher {
  const { concurrency, batchConcurrency, bodies, findMarkers, onAwaited, log } = deps;
  const states: State[] = deps.queues.map((queue) => ({
    ...queue,
    ...{ isEmpty: false, taking: 0, latest: undefined, found: 0, isMarked: false, nextLook: undefined },
  }));
  const byMarker = new Map(states.map((state) => [state.worker.markerKey, state]));
  const byOwner = Map.groupBy(states, ({ owner }) => owner);
  /** Those served last stand last, so that models that share a backend take turns. */
  const turns = new Map(lanes.map((lane) => [lane, states.filter((state) => state.lane === lane)]));
  const inProgress = new Set<Promise<void>>();
  let taking = 0;
  let isClosed = false;
  let isPumping = false;
  let lookingAgain: NodeJS.Timeout | undefined;

  const inHand = ({ worker, taking }: State) => worker.running() + taking;

  function hasRoom(state: State): boolean {
    if (isClosed || taking >= bodies.furtherJobs()) return false;
    if (state.lane === 'interactive') return inHand(state) < concurrency;
    const ofOwner = (byOwner.get(state.owner) ?? []).reduce((sum, each) => sum + inHand(each), 0);
    return ofOwner < concurrency && inHand(state) < batchConcurrency;
  }

  function canTake(state: State): boolean {
    return hasRoom(state) && state.hasSlot();
  }

  function pump(): void {
    if (isPumping) return;
    isPumping = true;
    for (const lane of lanes) while (takeOneOfEach(lane));
    isPumping = false;
    if (!isClosed && states.some(({ isEmpty }) => !isEmpty)) lookingAgain ??= setTimeout(lookAgain, lookAgainMs);
    onAwaited();
  }

  function lookAgain(): void {
    lookingAgain = undefined;
    pump();
  }

  function takeOneOfEach(lane: Lane): boolean {
    const order = turns.get(lane) ?? [];
    const served = new Set(order.filter(begin));
    turns.set(lane, [...order.filter((state) => !served.has(state)), ...served]);
    return served.size > 0;
  }

  function begin(state: State): boolean {
    if (state.isEmpty || state.taking >= takingsOf(state)) return false;
    if (!hasRoom(state)) return false;
    const reserved = state.reserve();
    if (reserved?.outcome === 'full') return false;
    state.latest = track(take(state, reserved));
    return true;
  }

  function track(work: Promise<void>): Promise<void> {
    const tracked = work.finally(() => {
      inProgress.delete(tracked);
      pump();
    });
    inProgress.add(tracked);
    return tracked;
  }

  async function take(state: State, reserved: Reserved | undefined): Promise<void> {
    const reservation = reserved?.outcome === 'reserved' ? reserved.reservation : undefined;
    state.isMarked = false;
    state.taking++;
    taking++;
    const taken = await state.worker.take().catch((error: unknown): { nextAt: number } => {
      log.warn({ err: error }, 'a job could not be taken; trying again');
      return { nextAt: Date.now() + failedPauseMs };
    });
    state.taking--;
    taking--;
    if ('job' in taken) return run(state, taken, reservation);
    reservation?.release();
    state.found = 0;
    state.isEmpty = !state.isMarked;
    lookFrom(state, taken.nextAt);
  }

  function run(state: State, taken: LockedJob, reservation: Parameters<LaneWorker['run']>[1]): void {
    state.found++;
    // Taking a job has set the marker if there are more, which brings the next taking. A queue that has given several is asked at once,
    // and one that has taken the last slot as soon as there is another, for it is not waited for meanwhile.
    if (state.found === 1 && state.taking === 0) state.isEmpty = !state.isMarked && canTake(state);
    track(state.worker.run(taken, reservation));
  }

  /** A job that was put off is due then; 0: there is none. */
  function lookFrom(state: State, at: number): void {
    if (at === 0 || isClosed) return;
    clearTimeout(state.nextLook);
    const look = () => {
      state.isEmpty = false;
      pump();
    };
    state.nextLook = setTimeout(look, Math.min(nextLookMsMax, Math.max(1, at - Date.now())));
  }

  return {
    slotsChanged: pump,
    mayHaveJob(marker, at) {
      const state = byMarker.get(marker);
      if (state === undefined) return undefined;
      if (at > Date.now()) {
        lookFrom(state, at);
        return undefined;
      }
      state.isMarked = true;
      state.isEmpty = false;
      pump();
      if (state.taking > 0) return state.latest;
      // The room has gone meanwhile: another worker may have some.
      state.isMarked = false;
      state.worker.setMarker();
      return undefined;
    },
    awaited: (except) =>
      states
        .filter((state) => state.isEmpty && !except?.has(state.worker.markerKey) && canTake(state))
        .map(({ worker }) => worker.markerKey),
    async checkFull() {
      const full = states.filter((state) => hasRoom(state) && !state.hasSlot());
      const marked = await findMarkers(full.map(({ worker }) => worker.markerKey));
      for (const state of full) state.isEmpty = !state.isMarked && !marked.has(state.worker.markerKey);
      if (marked.size > 0) pump();
    },
    cancel(requestId, reason) {
      for (const { worker } of states) worker.cancel(requestId, reason);
    },
    requeueAll() {
      for (const { worker } of states) worker.requeueAll();
    },
    running: () => states.reduce((sum, { worker }) => sum + worker.running(), 0),
    async finish() {
      isClosed = true;
      clearTimeout(lookingAgain);
      for (const { nextLook } of states) clearTimeout(nextLook);
      while (inProgress.size > 0) await Promise.all(inProgress);
    },
  };
}

/** More at once the longer each finds a job: takings after the last job find nothing. */
function takingsOf({ found }: State): number {
  return Math.max(1, Math.min(takingsAtOnceMax, Math.floor(Math.sqrt(found))));
}
