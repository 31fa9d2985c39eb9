import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Batch } from '../../../shared/batches/batch.ts';
import type { Store } from '../../../shared/store/store.ts';
import { requestIdOf } from '../lines/ids.ts';
import type { LineQueue, QueuedLine } from '../lines/line-queue.ts';

const removedAtOnce = 500;
/** Lines after which the process does something else. */
const linesPerTurn = 500;

/**
 * Removes what a batch that is over has left in the store: its results, which stand in its files by then. False while a job of
 * one of its lines is still there: what that has to charge stands in a result.
 */
export function createClearBatch({
  store,
  queue,
}: {
  store: Pick<Store, 'batches'>;
  queue: Pick<LineQueue, 'remaining'>;
}) {
  /** Jobs that were still there when they were last looked for; of all others it is known that they are not. */
  const left = new Map<string, QueuedLine[]>();

  return async function clearBatch(batch: Batch, signal: AbortSignal): Promise<boolean> {
    const looked = left.get(batch.id) ?? (await jobsOf(batch));
    const there = await queue.remaining(looked);
    left.delete(batch.id);
    if (there.size > 0) {
      left.set(
        batch.id,
        looked.filter(({ requestId }) => there.has(requestId)),
      );
      return false;
    }
    while (!(await store.batches.removeResults(batch.id, removedAtOnce))) signal.throwIfAborted();
    return true;
  };

  async function jobsOf({ id }: Batch): Promise<QueuedLine[]> {
    const lines = await store.batches.listEndedLines(id, 1);
    const numbers = new Map((await store.batches.listRetries(id)).map(({ line, number }) => [line, number]));
    const jobs: QueuedLine[] = [];
    for (const [index, line] of lines.entries()) {
      jobs.push({ requestId: requestIdOf(id, line, numbers.get(line) ?? 1) });
      if (index % linesPerTurn === 0) await nextTurn();
    }
    return jobs;
  }
}
