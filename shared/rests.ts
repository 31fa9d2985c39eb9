import { setTimeout as sleep } from 'node:timers/promises';

/** To be awaited after work that held up everything else for so long. */
export type Rest = (workMs: number) => Promise<unknown>;

type Parts = { restsPerWork?: number; restMsMax?: number; wait?: (ms: number) => Promise<unknown> };

/**
 * Bounds what work of one kind takes of this process to about a quarter, so that requests of others are served in between. A task
 * rests after each piece for three times as long as the piece took, times the number of tasks that rest now. So tasks share that
 * quarter, and one whose pieces are cheap rests less than one whose pieces are costly.
 */
export function createRests({ restsPerWork = 3, restMsMax = 10_000, wait = sleep }: Parts = {}): Rest {
  let resting = 0;
  return async function rest(workMs) {
    resting += 1;
    try {
      await wait(Math.min(restMsMax, workMs * restsPerWork * resting));
    } finally {
      resting -= 1;
    }
  };
}
