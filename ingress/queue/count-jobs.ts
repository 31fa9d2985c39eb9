import { setTimeout as sleep } from 'node:timers/promises';
import type { QueueBounds } from './queue-bounds.ts';
import type { QueueDepths } from './queue-depths.ts';

/**
 * Reports to the bounds how many jobs wait, four times a second while they need it, until disposed
 * (decisions.md#depth-counted-when-useful). After a failure the count is unknown.
 */
export function countJobs({
  depths,
  bounds,
  everyMs = 250,
}: {
  depths: Pick<QueueDepths, 'read'>;
  bounds: Pick<QueueBounds, 'counted' | 'whenUseful'>;
  everyMs?: number;
}): Disposable {
  const stop = new AbortController();

  async function keepCounting(): Promise<void> {
    while (!stop.signal.aborted) {
      bounds.counted(await depths.read(everyMs).catch(() => undefined));
      await sleep(everyMs, undefined, { signal: stop.signal }).catch(() => {});
      await bounds.whenUseful();
    }
  }

  void keepCounting();
  return { [Symbol.dispose]: () => stop.abort() };
}
