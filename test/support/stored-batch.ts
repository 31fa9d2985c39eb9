import { ulid } from 'ulid';
import type { Batch, StoredFile } from '../../shared/batches/batch.ts';

const day = 86_400_000;

/** A batch as the store has it, that no worker will do anything with. */
export function storedBatch(account: string, change: Partial<Batch> = {}): Batch {
  const createdAt = new Date();
  return {
    id: `batch_${ulid()}`,
    account,
    keyId: '',
    endpoint: '/v1/chat/completions',
    completionWindow: '24h',
    inputFile: `file-${ulid()}`,
    metadata: null,
    state: 'completed',
    open: false,
    tokens: 10,
    counts: { total: 1, completed: 1, failed: 0 },
    position: { line: 2, byte: 0 },
    errors: [],
    createdAt,
    expiresAt: new Date(createdAt.getTime() + day),
    version: 1,
    ...change,
  };
}

export function storedFile(account: string, change: Partial<StoredFile> = {}): StoredFile {
  const createdAt = new Date();
  return {
    id: `file-${ulid()}`,
    account,
    filename: 'in.jsonl',
    purpose: 'batch',
    state: 'ready',
    bytes: 1,
    lines: 1,
    tokens: 1,
    createdAt,
    expiresAt: new Date(createdAt.getTime() + 30 * day),
    ...change,
  };
}
