import type { StoredFile } from '../../shared/batches/batch.ts';
import { ApiError } from '../../shared/errors.ts';
import { isFileId } from '../../shared/store/file-store.ts';
import type { Caller } from '../../shared/store/records/account.ts';
import { filesOf } from '../../shared/store/records/key.ts';
import type { Store } from '../../shared/store/records/store.ts';

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

/**
 * The files and batches that a caller may use: those of its account that one of these keys has made. Without keys, all of the account
 * (contract.md#ho7-files-of-a-key).
 */
export type FileAccess = {
  account: string;
  readsOf?: readonly string[];
  changesOf?: readonly string[];
};

/** A file or a batch. */
type FileOwner = Pick<StoredFile, 'account' | 'keyId'>;

export function fileAccessOf({ account, keyId = '', keyScope = {} }: Caller): FileAccess {
  const files = filesOf(keyScope);
  if (files === 'all') return { account };
  const own = [keyId, ...(keyScope.replaced ?? [])];
  return { account, changesOf: own, ...(files !== 'read' && { readsOf: own }) };
}

/** What a caller may not read does not exist for it. */
export function mayRead({ account, readsOf }: FileAccess, made: FileOwner): boolean {
  return made.account === account && isOneOf(made, readsOf);
}

/** Fails with `FORBIDDEN` for what the caller may only read. */
export function requireChangeable({ changesOf }: FileAccess, made: FileOwner): void {
  if (isOneOf(made, changesOf)) return;
  throw new ApiError('FORBIDDEN', 'This API key may read the files and batches of other keys, and not change them.');
}

function isOneOf({ keyId = '' }: FileOwner, keys: readonly string[] | undefined): boolean {
  return keys === undefined || keys.includes(keyId);
}
