import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Batch } from '../../shared/batches/batch.ts';
import type { ClaimOwner } from '../../shared/idempotency/derived-key.ts';

/** Returns the claim of the batch that this account creates with this idempotency key. It has only a hash of the key. */
export function batchClaim({ account, idempotencyKey }: ClaimOwner): string {
  return createHash('sha256').update(`${account}\0${idempotencyKey}`).digest('base64url');
}

type NewBatch = {
  input_file_id: string;
  endpoint: string;
  completion_window: string;
  metadata?: Batch['metadata'] | undefined;
};

/** Whether a batch is the one that this body asks for. */
export function isAskedFor(batch: Batch, { input_file_id, endpoint, completion_window, metadata }: NewBatch): boolean {
  return (
    batch.inputFile === input_file_id &&
    batch.endpoint === endpoint &&
    batch.completionWindow === completion_window &&
    isDeepStrictEqual(batch.metadata, metadata ?? null)
  );
}
