import { setTimeout as sleep } from 'node:timers/promises';

/** To be awaited after work that held up everything else for so long. */
export type Rest = (workMs: number) => Promise<unknown>;

type Parts = { restsPerWork?: number; restMsMax?: number; now?: () => number; wait?: (ms: number) => Promise<unknown> };

/**
 * Bounds what work of one kind takes of this process: after each piece all of it rests for three times as long, so requests of
 * others are served in between. Pieces that are done at the same time rest one after another.
 */
export function createRests(parts: Parts = {}): Rest {
  const { restsPerWork = 3, restMsMax = 10_000, now = () => performance.now(), wait = sleep } = parts;
  let until = 0;
  return async function rest(workMs) {
    until = Math.min(Math.max(now(), until) + workMs * restsPerWork, now() + restMsMax);
    await wait(until - now());
  };
}
