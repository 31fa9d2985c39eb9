import type { StoredFile } from '../../shared/batches/batch.ts';
import { ApiError } from '../../shared/errors.ts';
import { isFileId } from '../../shared/store/file-store.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { type FileAccess, mayRead } from './file-access.ts';

type Search = { id: string; access: FileAccess };

/**
 * Returns a file after its upload is complete and until it is deleted. Undefined otherwise, also for a file that the caller may not read.
 */
export async function findFile(store: Pick<Store, 'batches'>, { id, access }: Search): Promise<StoredFile | undefined> {
  const file = isFileId(id) ? await store.batches.findFile(id) : undefined;
  return file?.state === 'ready' && mayRead(access, file) ? file : undefined;
}

export function noSuchFile(): ApiError {
  return new ApiError('NOT_FOUND', 'There is no such file.');
}
