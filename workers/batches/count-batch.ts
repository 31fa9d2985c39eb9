import type { Batch } from '../../shared/batches/batch.ts';
import { nextBatch } from '../../shared/batches/batch-states.ts';
import type { BatchStore } from '../../shared/store/batches/batch-store.ts';
import type { BatchFeed } from './files/batch-feed.ts';

/** `ran`: every line has a result; `mistaken`: the feed has no line left, but some lines have no result. */
export type CountOutcome = 'running' | 'ran' | 'mistaken';

/** Counts the results of a batch, and writes the counts if they have grown. A batch whose lines all have a result has run. */
export function createCountBatch({ store }: { store: Pick<BatchStore, 'countResults' | 'changeBatch'> }) {
  return async function countBatch(
    { id, counts }: Batch,
    feed: Pick<BatchFeed, 'isDone' | 'position'>,
    now: number,
  ): Promise<CountOutcome> {
    const isFed = feed.isDone();
    const { completed, failed } = await store.countResults(id);
    const hasRun = isFed && completed + failed >= counts.total;
    if (isFed && !hasRun) return 'mistaken';
    if (!hasRun && completed + failed <= counts.completed + counts.failed) return 'running';
    const at = new Date(now);
    const position = feed.position();
    await store.changeBatch(id, (found) => {
      const counted = found && nextBatch(found, { type: 'counted', completed, failed, position }, at);
      const next = hasRun && counted ? nextBatch(counted, { type: 'ran' }, at) : counted;
      return { result: undefined, ...(next && { next }) };
    });
    return hasRun ? 'ran' : 'running';
  };
}
