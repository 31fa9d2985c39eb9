import type { FileStore } from '../files/file-store.ts';
import type { BatchStore } from './batch-store.ts';

/**
 * Removes a file, unless an unfinished batch has it as its input. The file is marked before this check: a batch submitted later fails its
 * validation because the file is gone, and no batch loses its file while it runs. The check also runs before the mark, so that a file in
 * use is usually not marked at all. A marked file is removed, by the workers' sweep if necessary.
 */
export async function removeUnusedFile(
  { batches, files }: { batches: BatchStore; files: FileStore },
  id: string,
): Promise<'removed' | 'in use' | 'absent'> {
  if (await batches.isInputOfUnfinished(id)) return 'in use';
  if (!(await batches.changeFile(id, 'ready', { state: 'deleting' }))) return 'absent';
  if (await batches.isInputOfUnfinished(id)) {
    await batches.changeFile(id, 'deleting', { state: 'ready' });
    return 'in use';
  }
  await files.remove(id);
  await batches.removeFile(id);
  return 'removed';
}
