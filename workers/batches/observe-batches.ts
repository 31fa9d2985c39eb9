import { within } from '../../shared/process/shutdown.ts';
import type { BatchStats } from '../../shared/store/batches/batch-records.ts';
import type { BatchStore } from '../../shared/store/batches/batch-store.ts';

/** Limits the load of many workers' scrapes on the store. */
const keptMs = 5_000;
/** The longest that a scrape waits for the store. */
const waitMs = 1_000;

/** Reads statistics of all batches, at most a few seconds old. Undefined while the store does not answer. */
export function createObserveBatches(
  store: Pick<BatchStore, 'describeBatches'>,
  now: () => number = () => performance.now(),
): () => Promise<BatchStats | undefined> {
  let latest: { at: number; stats: Promise<BatchStats | undefined> } | undefined;
  return async function observeBatches() {
    if (latest === undefined || now() - latest.at >= keptMs) {
      latest = { at: now(), stats: store.describeBatches().catch(() => undefined) };
    }
    const { stats } = latest;
    return (await within(waitMs, stats)) ? stats : undefined;
  };
}
