import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../process/log.ts';
import { within } from '../process/shutdown.ts';
import type { createNoteProcess, FleetProcess, ProcessNote } from './note-process.ts';
import type { ProcessLoad } from './process-load.ts';

const noteEveryMs = 2_000;
/** While this process waits for another one. */
const noteSoonMs = 250;
const leaveMs = 500;

/** Notes this process at a regular interval until it is disposed of. */
export function followFleet({
  noteProcess: { note, leave },
  describe,
  load,
  onNoted,
  isWaiting,
  log,
  pause = (ms, signal) => sleep(ms, undefined, { signal, ref: false }),
}: {
  noteProcess: Pick<ReturnType<typeof createNoteProcess>, 'note' | 'leave'>;
  describe: () => ProcessNote;
  load: () => ProcessLoad;
  /** The processes that are alive. Not called while Redis is unavailable. */
  onNoted: (processes: readonly FleetProcess[]) => void;
  /** Whether this process waits for a change of another one. */
  isWaiting: () => boolean;
  log: Pick<Log, 'warn'>;
  pause?: (ms: number, signal: AbortSignal) => Promise<unknown>;
}) {
  const closing = new AbortController();
  const first = Promise.withResolvers<void>();
  let soon = Promise.withResolvers<void>();
  let processes: readonly FleetProcess[] = [];
  let isFailing = false;

  async function noteOnce(): Promise<void> {
    try {
      processes = await note(describe(), load());
      isFailing = false;
      if (!closing.signal.aborted) onNoted(processes);
    } catch (error) {
      if (!isFailing && !closing.signal.aborted)
        log.warn({ err: error }, 'this process was not made known to the others');
      isFailing = true;
    }
    first.resolve();
  }

  async function noteUntilClosed(): Promise<void> {
    while (!closing.signal.aborted) {
      soon = Promise.withResolvers();
      await noteOnce();
      const pausing = pause(isWaiting() ? noteSoonMs : noteEveryMs, closing.signal).catch(() => {}); // aborted
      await Promise.race([pausing, soon.promise]);
    }
  }

  const repeating = noteUntilClosed();
  return {
    /** The processes that are alive, including this one, as of the last answer of Redis. */
    processes: (): readonly FleetProcess[] => processes,
    /** This process has changed: the others learn of it as soon as possible. */
    changed: (): void => soon.resolve(),
    /** Resolves once this process was noted for the first time, or could not be. */
    noted: first.promise,
    async [Symbol.asyncDispose]() {
      closing.abort();
      await within(leaveMs, repeating);
      await within(
        leaveMs,
        leave(describe().id).catch(() => {}),
      );
    },
  };
}

/** Makes this process known to the others, and knows them. */
export type Fleet = ReturnType<typeof followFleet>;
