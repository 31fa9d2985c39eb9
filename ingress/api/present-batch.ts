import type { Batch, BatchUsage } from '../../shared/batches/batch.ts';
import { secondsOf, shownKeyId } from './present-file.ts';
import type { OperatorBatch } from './response-schemas.ts';

/** OpenAI's batch object; times are in seconds, and null until they are known. */
export function presentBatch(batch: Batch) {
  const { counts, errors } = batch;
  return {
    id: batch.id,
    object: 'batch',
    endpoint: batch.endpoint,
    model: batch.model ?? null,
    errors: errors.length === 0 ? null : { object: 'list', data: errors },
    input_file_id: batch.inputFile,
    input_filename: batch.inputFilename,
    completion_window: batch.completionWindow,
    status: batch.state,
    output_file_id: batch.outputFile ?? null,
    error_file_id: batch.errorFile ?? null,
    created_at: secondsOf(batch.createdAt),
    in_progress_at: timeOf(batch.inProgressAt),
    expires_at: secondsOf(batch.expiresAt),
    finalizing_at: timeOf(batch.finalizingAt),
    completed_at: timeOf(batch.completedAt),
    failed_at: timeOf(batch.failedAt),
    expired_at: timeOf(batch.expiredAt),
    cancelling_at: timeOf(batch.cancellingAt),
    cancelled_at: timeOf(batch.cancelledAt),
    request_counts: { total: counts.total, completed: counts.completed, failed: counts.failed },
    usage: batch.usage === undefined ? null : presentUsage(batch.usage),
    error_counts: batch.errorCounts ?? null,
    metadata: batch.metadata,
    key_id: shownKeyId(batch.keyId),
  };
}

/** Without what the account has written. */
export function presentOperatorBatch(batch: Batch): OperatorBatch {
  const { errors: _errors, metadata: _metadata, ...shown } = presentBatch(batch);
  return { ...shown, object: 'batch', account: batch.account };
}

/** Results do not have the tokens of reasoning separately. */
function presentUsage({ promptTokens, cachedTokens, completionTokens }: BatchUsage) {
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: cachedTokens },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: promptTokens + completionTokens,
  };
}

function timeOf(date: Date | undefined): number | null {
  return date === undefined ? null : secondsOf(date);
}
