import type { StoredFile } from '../../../shared/batches/batch.ts';
import type { Log } from '../../../shared/process/log.ts';
import { fileLockKey } from '../../../shared/redis/keys.ts';
import type { Store } from '../../../shared/store/store.ts';
import type { AcquireLock } from '../../locks/acquire.ts';
import { repeatTask } from '../../maintenance/repeat-task.ts';

const filesAtOnce = 100;
/** Longer than an upload may take, and the writing of an output file, which is begun anew if it was not done. */
const writingMs = 3_600_000;
/** When a file that is in use is looked at again. */
const againMs = 3_600_000;

/**
 * Removes files whose time is over, those whose deletion was not carried through, and what is left of uploads that broke off
 * with their ingress. The input of a batch that is not over stays until it is.
 */
export function keepRemovingFiles(deps: {
  store: Pick<Store, 'batches' | 'files'>;
  acquireLock: AcquireLock;
  /** Redis's time, in milliseconds. */
  now: () => Promise<number>;
  log: Log;
  everyMs?: number;
}): AsyncDisposable {
  const { store, acquireLock, log, everyMs = 60_000 } = deps;

  async function removeSome(signal: AbortSignal): Promise<void> {
    const now = await deps.now();
    const due = await store.batches.listFilesToRemove(new Date(now), new Date(now - writingMs), filesAtOnce);
    for (const file of due) {
      signal.throwIfAborted();
      // One that cannot be removed must not keep the others.
      await remove(file, now).catch((error: unknown) =>
        log.warn({ err: error, file: file.id }, 'a file whose time is over was not removed; trying again'),
      );
    }
    if (due.length > 0) log.info({ files: due.length }, 'files whose time is over were looked after');
  }

  async function remove({ id, state, expiresAt }: StoredFile, now: number): Promise<void> {
    // Looked at again after a while, or those in use would stand in front of all others.
    const again = expiresAt.getTime() <= now ? { expiresAt: new Date(now + againMs) } : {};
    if (state === 'ready' && (await store.batches.isInputOfUnfinished(id))) {
      await store.batches.changeFile(id, 'ready', again);
      return;
    }
    // One that is written by now, or deleted by another, is not what was found.
    if (state !== 'deleting' && !(await store.batches.changeFile(id, state, { state: 'deleting' }))) return;
    if (await store.batches.isInputOfUnfinished(id)) {
      await store.batches.changeFile(id, 'deleting', { state: 'ready', ...again });
      return;
    }
    await store.files.remove(id);
    await store.batches.removeFile(id);
  }

  return repeatTask({
    ...{ everyMs, log, failed: 'files whose time is over were not removed; trying again' },
    async work(signal) {
      if (await acquireLock(fileLockKey)) await removeSome(signal);
    },
  });
}
