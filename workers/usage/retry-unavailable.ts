import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError } from '../../shared/errors.ts';

/** Repeats work that fails because the store or Redis is unavailable, up to a time limit. Then it fails with the same error. */
export type RetryUnavailable = <T>(work: () => Promise<T>) => Promise<T>;

const pauseMs = 250;

/** No further attempt begins once `signal` is aborted. */
export function createRetryUnavailable({
  unavailableMsMax,
  signal,
}: {
  unavailableMsMax: number;
  signal: AbortSignal;
}): RetryUnavailable {
  return async function retryUnavailable(work) {
    const giveUpAt = performance.now() + unavailableMsMax;
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
