import { setTimeout as sleep } from 'node:timers/promises';

/** To be awaited after work that blocked the process for `workMs`. */
export type Rest = (workMs: number) => Promise<unknown>;

/** One piece that takes longer than this delays more requests than several short pieces of the same total time. */
const longMs = 30;

/**
 * Limits work of one kind to about a quarter of this process's time, so that other requests are served in between (contract.md#v3-rests,
 * decisions.md#heavy-work-rests). After each piece, a task rests for three times as long as the piece took (longer after a long piece),
 * times the number of tasks that rest now. So tasks share that quarter, and a task with cheap pieces rests less than one with costly
 * pieces.
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
