import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError } from '../../shared/errors.ts';

/** Repeats what fails because the store or Redis cannot be used, until it has done so for a while; then it fails the same. */
export type Patiently = <T>(work: () => Promise<T>) => Promise<T>;

const pauseMs = 250;

/** Nothing new begins once `signal` is aborted. */
export function createPatience({ patienceMs, signal }: { patienceMs: number; signal: AbortSignal }): Patiently {
  return async function patiently(work) {
    const giveUpAt = performance.now() + patienceMs;
    for (;;) {
      signal.throwIfAborted();
      try {
        return await work();
      } catch (error) {
        if (!isUnavailable(error) || performance.now() >= giveUpAt) throw error;
      }
      await sleep(pauseMs, undefined, { signal });
    }
  };
}

export function isUnavailable(error: unknown): boolean {
  return error instanceof ApiError && error.code === 'SERVICE_UNAVAILABLE';
}
