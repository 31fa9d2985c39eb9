import type { BatchEnding } from '../../../shared/batches/batch.ts';
import { isRunning } from '../../../shared/batches/batch-states.ts';
import type { Log } from '../../../shared/process/log.ts';
import { repeatWhile } from '../../../shared/process/repeat-while.ts';
import type { BatchStore } from '../../../shared/store/batches/batch-store.ts';

/** Tells a line that its batch is over, also while its backend is silent. */
export interface BatchWatch extends Disposable {
  /** Calls `onOver` a few seconds after its batch was cancelled or has expired; what it returns ends the watch. */
  follow(batch: string, onOver: OnOver): () => void;
}

type OnOver = (ending: BatchEnding) => void;

/** Looks at the batches of the lines in hand, one call for each, and leaves those that are nearly done time to end. */
export function watchBatches({
  store,
  log,
  everyMs = 1_500,
  graceMs = 3_000,
}: {
  store: Pick<BatchStore, 'findBatch'>;
  log: Log;
  everyMs?: number;
  graceMs?: number;
}): BatchWatch {
  const lines = new Map<string, Set<OnOver>>();
  const overSince = new Map<string, number>();

  async function look(): Promise<void> {
    for (const [id, onOver] of lines) {
      const batch = await store.findBatch(id);
      if (batch !== undefined && isRunning(batch)) continue;
      const since = overSince.get(id) ?? performance.now();
      overSince.set(id, since);
      if (performance.now() - since >= graceMs) for (const end of onOver) end(batch?.ending ?? 'cancelled');
    }
  }

  const looking = repeatWhile({
    everyMs,
    work: look,
    isNeeded: () => lines.size > 0,
    onFailure: (error) => log.debug({ err: error }, 'it is not known which batches are over'),
  });

  return {
    follow(batch, onOver) {
      const followed = lines.get(batch) ?? new Set();
      lines.set(batch, followed.add(onOver));
      looking.begin();
      return () => {
        followed.delete(onOver);
        if (followed.size > 0 || lines.get(batch) !== followed) return;
        lines.delete(batch);
        overSince.delete(batch);
      };
    },
    [Symbol.dispose]: looking[Symbol.dispose],
  };
}
