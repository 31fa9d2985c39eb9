import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Batch } from '../../shared/batches/batch.ts';
import type { ClaimOwner } from '../../shared/jobs/idempotency.ts';

/** Returns the claim of the batch that this account creates with this idempotency key. It has only a hash of the key. */
export function batchClaim({ account, idempotencyKey }: ClaimOwner): string {
  return createHash('sha256').update(`${account}\0${idempotencyKey}`).digest('base64url');
}

type NewBatch = {
  input_file_id: string;
  endpoint: string;
  completion_window: string;
  metadata?: Batch['metadata'] | undefined;
  output_expires_after?: { seconds: number } | null | undefined;
};

/** Whether a batch is the one that this body asks for. */
export function isAskedFor(batch: Batch, body: NewBatch): boolean {
  const { input_file_id, endpoint, completion_window, metadata, output_expires_after: expiry } = body;
  return (
    batch.inputFile === input_file_id &&
    batch.endpoint === endpoint &&
    batch.completionWindow === completion_window &&
    batch.outputSeconds === expiry?.seconds &&
    isDeepStrictEqual(batch.metadata, metadata ?? null)
  );
}
