import { setTimeout as sleep } from 'node:timers/promises';
import type { QueueBounds } from './queue-bounds.ts';

type Parts = {
  pools: readonly string[];
  /** Jobs that wait in a pool's interactive lane; fails while Redis is away. */
  depth: (pool: string) => Promise<number>;
  bounds: Pick<QueueBounds, 'beginCount' | 'whenUseful'>;
  everyMs?: number;
};

/**
 * Counts each pool's waiting jobs four times a second while a count is needed, until it is disposed of. After a failed count the
 * number is unknown.
 */
export function countJobs({ pools, depth, bounds, everyMs = 250 }: Parts): Disposable {
  const stop = new AbortController();

  async function count(pool: string): Promise<void> {
    while (!stop.signal.aborted) {
      const endCount = bounds.beginCount(pool);
      endCount(await depth(pool).catch(() => undefined));
      await sleep(everyMs, undefined, { signal: stop.signal }).catch(() => {});
      await bounds.whenUseful(pool);
    }
  }

  for (const pool of pools) void count(pool);
  return { [Symbol.dispose]: () => stop.abort() };
}
