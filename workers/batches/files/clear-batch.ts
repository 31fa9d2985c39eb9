import type { Batch } from '../../../shared/batches/batch.ts';
import type { Store } from '../../../shared/store/store.ts';
import { nextTurn } from '../../../shared/turns/in-turn.ts';
import { requestIdOf } from '../lines/ids.ts';
import type { LineQueue, QueuedLine } from '../lines/line-queue.ts';

const removedAtOnce = 500;
/** After this many lines the event loop continues. */
const linesPerTurn = 500;

/**
 * Removes the results of a batch that is over from the store. They are in its files by then. False while a job of one of its lines exists,
 * because that job charges what a result says.
 */
export function createClearBatch({
  store,
  queue,
}: {
  store: Pick<Store, 'batches'>;
  queue: Pick<LineQueue, 'remaining'>;
}) {
  /** The jobs that existed at the last check. All others are gone. */
  const left = new Map<string, QueuedLine[]>();

  return async function clearBatch(batch: Batch, signal: AbortSignal): Promise<boolean> {
    const checked = left.get(batch.id) ?? (await jobsOf(batch));
    const present = await queue.remaining(checked);
    left.delete(batch.id);
    if (present.size > 0) {
      left.set(
        batch.id,
        checked.filter(({ requestId }) => present.has(requestId)),
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
