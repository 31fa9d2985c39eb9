import type { Batch, StoredFile } from '../../shared/batches/batch.ts';
import { batchOf, fileOf } from '../shared/store/batch-records.ts';

const day = 86_400_000;

/** A batch in the store that no worker processes. */
export function storedBatch(account: string, change: Partial<Batch> = {}): Batch {
  const [createdAt, expiresAt] = [new Date(), new Date(Date.now() + day)];
  const over = { state: 'completed', open: false, counts: { total: 1, completed: 1, failed: 0 } } as const;
  return batchOf({ account, keyId: '', tokens: 10, createdAt, expiresAt, ...over, ...change });
}

export function storedFile(account: string, change: Partial<StoredFile> = {}): StoredFile {
  const [createdAt, expiresAt] = [new Date(), new Date(Date.now() + 30 * day)];
  return fileOf({ account, filename: 'in.jsonl', bytes: 1, lines: 1, tokens: 1, createdAt, expiresAt, ...change });
}
