import type { StoredFile } from '../../shared/batches/batch.ts';
import { ApiError } from '../../shared/errors.ts';
import { isFileId } from '../../shared/store/files/file-ids.ts';
import type { Store } from '../../shared/store/store.ts';

type Wanted = { id: string; account: string };

/** Returns the file of the account after its upload is complete and until it is deleted. Undefined otherwise, also for files of other accounts. */
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
