import type { Log } from '../../shared/process/log.ts';
import type { ReserveOutcome } from '../backends/backend-slots.ts';
import type { JobRoom } from './job-room.ts';
import type { LaneWorker, LockedJob } from './lane-worker.ts';
import type { QueueState } from './queue-state.ts';

/** A queue with many jobs is emptied by this many takings at once. */
const takingsAtOnceMax = 16;
const failedPauseMs = 1_000;

/** Takes jobs from queues and runs them. */
export function createJobTaker(deps: {
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
    reservation?.release();
    state.found = 0;
    state.isEmpty = !state.isMarked;
    onNone(state, taken.nextAt);
  }

  function run(state: QueueState, taken: LockedJob, reservation: Parameters<LaneWorker['run']>[1]): void {
    state.found++;
    // If there are more jobs, taking one has set the marker, which brings the next taking. Two cases do not wait for the marker: a queue
    // that has given several jobs, and one whose job took the last slot, because it is not awaited until there is another slot.
    if (state.found === 1 && state.taking === 0) state.isEmpty = !state.isMarked && room.canTake(state);
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

export type JobTaker = ReturnType<typeof createJobTaker>;

/** More takings at once, the more jobs in a row were found: takings after the last job find nothing. */
function takingsMaxOf({ found }: QueueState): number {
  return Math.max(1, Math.min(takingsAtOnceMax, Math.floor(Math.sqrt(found))));
}
