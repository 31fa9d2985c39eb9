import type { StoredFile } from '../../../shared/batches/batch.ts';
import type { Log } from '../../../shared/process/log.ts';
import { fileLockKey } from '../../../shared/redis/keys.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import type { AcquireLock } from '../../upkeep/locks.ts';
import { repeatTask } from '../../upkeep/repeat-task.ts';

const filesAtOnce = 100;
/**
 * Longer than an upload may take, and longer than an output file takes to write. Output files that were not completed are written again.
 */
const writingMs = 3_600_000;
/** A file that is in use is checked again after this time. */
const recheckMs = 3_600_000;

/**
 * Starts to remove files that have expired, files whose deletion was not completed, and what is left of uploads whose ingress died. The
 * input of a batch that is not over stays until it is.
 */
export function startFileRemoval(deps: {
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
      // A file that cannot be removed must not stop the others.
      await remove(file, now).catch((error: unknown) =>
        log.warn({ err: error, file: file.id }, 'an expired file was not removed; trying again'),
      );
    }
    if (due.length > 0) log.info({ files: due.length }, 'expired files were checked and removed');
  }

  async function remove({ id, state, expiresAt }: StoredFile, now: number): Promise<void> {
    // Checked again later. Otherwise files in use would fill the list and hide all others.
    const recheck = expiresAt.getTime() <= now ? { expiresAt: new Date(now + recheckMs) } : {};
    if (state === 'ready' && (await store.batches.isInputOfUnfinished(id))) {
      await store.batches.changeFile(id, 'ready', recheck);
      return;
    }
    // Meanwhile the file may have been written, or deleted by another worker.
    if (state !== 'deleting' && !(await store.batches.changeFile(id, state, { state: 'deleting' }))) return;
    if (await store.batches.isInputOfUnfinished(id)) {
      await store.batches.changeFile(id, 'deleting', { state: 'ready', ...recheck });
      return;
    }
    await store.files.remove(id);
    await store.batches.removeFile(id);
  }

  return repeatTask({
    everyMs,
    log,
    failed: 'expired files were not removed; trying again',
    async work(signal) {
      if (await acquireLock(fileLockKey)) await removeSome(signal);
    },
  });
}
