import { setTimeout as sleep } from 'node:timers/promises';

/** To be awaited after work that held up everything else for so long. */
export type Rest = (workMs: number) => Promise<unknown>;

/** One piece that takes longer holds up more requests than several short ones that take as long together. */
const longMs = 30;

/**
 * Bounds what work of one kind takes of this process to about a quarter, so that requests of others are served in between. A task
 * rests after each piece for three times as long as the piece took, after a long one for more, times the number of tasks that rest
 * now. So tasks share that quarter, and one whose pieces are cheap rests less than one whose pieces are costly.
 */
export function createRests({
  restsPerWork = 3,
  restMsMax = 10_000,
  wait = sleep,
}: {
  restsPerWork?: number;
  restMsMax?: number;
  wait?: (ms: number) => Promise<unknown>;
} = {}): Rest {
  let resting = 0;
  return async function rest(workMs) {
    resting += 1;
    try {
      const times = restsPerWork * Math.max(1, workMs / longMs) * resting;
      await wait(Math.min(restMsMax, workMs * times));
    } finally {
      resting -= 1;
    }
  };
}
