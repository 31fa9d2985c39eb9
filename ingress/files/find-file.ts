import type { StoredFile } from '../../shared/batches/batch.ts';
import { ApiError } from '../../shared/errors.ts';
import { isFileId } from '../../shared/store/files/file-ids.ts';
import type { Store } from '../../shared/store/store.ts';

type Wanted = { id: string; account: string };

/** The account's file, once it is whole and until it is deleted. Undefined for any other, also for another account's file. */
export async function findFile(
  store: Pick<Store, 'batches'>,
  { id, account }: Wanted,
): Promise<StoredFile | undefined> {
  const file = isFileId(id) ? await store.batches.findFile(id) : undefined;
  return file?.account === account && file.state === 'ready' ? file : undefined;
}

export function noSuchFile(): ApiError {
  return new ApiError('NOT_FOUND', 'There is no such file.');
}
