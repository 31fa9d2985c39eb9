import { setTimeout as sleep } from 'node:timers/promises';

const pauseMsMax = 50;

/** Pauses for a random time after an attempt (numbered from 1), so that concurrent changes of the same data do not keep colliding. */
export function pauseBeforeRetry(attempt: number, signal?: AbortSignal): Promise<void> {
  return sleep(Math.random() * Math.min(pauseMsMax, 2 ** attempt), undefined, { signal });
}
