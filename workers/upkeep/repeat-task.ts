import { pauseToBeat } from '../../shared/concurrency/at-beat.ts';
import { within } from '../../shared/concurrency/shutdown.ts';
import type { Log } from '../../shared/process/log.ts';

type Task = {
  /** Called again `everyMs` after its last call has ended. It stops early once the signal is aborted. */
  work: (signal: AbortSignal) => Promise<void>;
  everyMs: number;
  /** The log message of a failure. The next call tries again. */
  failed: string;
  log: Pick<Log, 'warn'>;
};

const closeMs = 500;

/** Repeats a task in the background until it is disposed of, which takes at most half a second. */
export function repeatTask({ work, everyMs, failed, log }: Task): AsyncDisposable {
  const closing = new AbortController();
  const { signal } = closing;

  async function repeat(): Promise<void> {
    while (!signal.aborted) {
      try {
        await work(signal);
      } catch (error) {
        if (!signal.aborted) log.warn({ err: error }, failed);
      }
      await pauseToBeat(everyMs, signal);
    }
  }

  const repeating = repeat();

  return {
    async [Symbol.asyncDispose]() {
      closing.abort();
      await within(closeMs, repeating);
    },
  };
}
