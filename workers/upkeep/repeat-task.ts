import { setTimeout as sleep } from 'node:timers/promises';
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
      await sleep(everyMs, undefined, { signal }).catch(() => {});
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

/** Backoff for what keeps failing, so that it is tried less often and logged once. */
export interface Backoff<Name> {
  /** True if it is too early to try again. */
  waits(name: Name): boolean;
  /** True for the first failure since it last succeeded. */
  failed(name: Name): boolean;
  /** True if it had failed before. */
  succeeded(name: Name): boolean;
  /** Forgets all other names. */
  keepOnly(names: ReadonlySet<Name>): void;
}

/**
 * The wait doubles with each failure, from `firstMs` to `maxMs`, and is shortened by up to a half at random. Failures during a wait do not
 * extend it. `now` is a clock that only goes forward, in milliseconds.
 */
export function createBackoff<Name>({
  firstMs = 100,
  maxMs = 5_000,
  now = () => performance.now(),
  random = Math.random,
}: {
  firstMs?: number;
  maxMs?: number;
  now?: () => number;
  random?: () => number;
} = {}): Backoff<Name> {
  const waiting = new Map<Name, { failures: number; until: number }>();
  const waits = (name: Name) => now() < (waiting.get(name)?.until ?? 0);
  return {
    waits,
    failed(name) {
      const failures = waiting.get(name)?.failures ?? 0;
      if (waits(name)) return false;
      const waitMs = Math.min(maxMs, firstMs * 2 ** failures) * (1 + random()) * 0.5;
      waiting.set(name, { failures: failures + 1, until: now() + waitMs });
      return failures === 0;
    },
    succeeded: (name) => waiting.delete(name),
    keepOnly(names) {
      for (const name of waiting.keys()) if (!names.has(name)) waiting.delete(name);
    },
  };
}
