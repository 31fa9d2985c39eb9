import type { BatchEnding } from '../../../shared/batches/batch.ts';
import { isRunning } from '../../../shared/batches/batch-states.ts';
import { repeatWhile } from '../../../shared/concurrency/repeat-while.ts';
import type { Log } from '../../../shared/process/log.ts';
import type { BatchStore } from '../../../shared/store/records/batch-store.ts';

type OnOver = (ending: BatchEnding) => void;

/** Reads the batch of each running line from the store, one call for each batch. Lines that are nearly done get `graceMs` to end. */
export function watchBatches({
  store,
  log,
  everyMs = 1_500,
  graceMs = 3_000,
  now = () => performance.now(),
}: {
  store: Pick<BatchStore, 'findBatch'>;
  log: Log;
  everyMs?: number;
  graceMs?: number;
  now?: () => number;
}) {
  const lines = new Map<string, Set<OnOver>>();
  const overSince = new Map<string, number>();

  async function checkBatches(): Promise<void> {
    for (const [id, onOver] of lines) {
      const batch = await store.findBatch(id);
      if (batch !== undefined && isRunning(batch)) continue;
      const since = overSince.get(id) ?? now();
      overSince.set(id, since);
      if (now() - since >= graceMs) for (const end of onOver) end(batch?.ending ?? 'cancelled');
    }
  }

  const checking = repeatWhile({
    everyMs,
    work: checkBatches,
    isNeeded: () => lines.size > 0,
    onFailure: (error) => log.debug({ err: error }, 'batches could not be checked for their end'),
  });

  return {
    /** Calls `onOver` a few seconds after the batch was cancelled or has expired. Returns a function that ends the watch. */
    follow(batch: string, onOver: OnOver): () => void {
      const followed = lines.get(batch) ?? new Set();
      lines.set(batch, followed.add(onOver));
      checking.begin();
      return () => {
        followed.delete(onOver);
        if (followed.size > 0 || lines.get(batch) !== followed) return;
        lines.delete(batch);
        overSince.delete(batch);
      };
    },
    [Symbol.dispose]: checking[Symbol.dispose],
  };
}

/** Notifies running lines that their batch is over, also while their backend sends nothing. */
export type BatchWatch = ReturnType<typeof watchBatches>;
