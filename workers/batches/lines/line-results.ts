import { type BatchResult, lineBytesMax } from '../../../shared/batches/batch.ts';
import { ApiError, errorStatus } from '../../../shared/errors.ts';
import type { TokenUsage } from '../../../shared/jobs/replies.ts';
import { noTokens } from '../../answers/usage-report.ts';

type Line = Pick<BatchResult, 'batch' | 'line' | 'customId' | 'requestId'>;

/** An answer, for the output file; one that is too large to be kept is not, and was paid for all the same. */
export function answeredLine(line: Line, body: string, usage: TokenUsage): BatchResult {
  if (Buffer.byteLength(body) > lineBytesMax) {
    const tooLarge = new ApiError('PAYLOAD_TOO_LARGE', 'The answer is larger than 4 MiB, and was not kept.');
    return failedLine(line, tooLarge, usage);
  }
  return { ...named(line), ...tokensOf(usage), failed: false, status: 200, body, error: null };
}

/** A line whose request its backend has refused, in the shape that it would have had for a client who waits. */
export function refusedLine(line: Line, error: ApiError): BatchResult {
  const body = JSON.stringify({ error: error.message, code: error.code });
  return { ...failedLine(line, error), status: errorStatus(error.code), body };
}

/** A line that ends without an answer. `usage` is what is charged all the same. */
export function failedLine(
  line: Line,
  { code, message }: { code: string; message: string },
  usage: TokenUsage = noTokens,
): BatchResult {
  return { ...named(line), ...tokensOf(usage), failed: true, status: null, body: null, error: { code, message } };
}

/** What is said of a line that was not run, or not to its end, by how its batch ends. */
export const unfinished = {
  expired: { code: 'batch_expired', message: 'The line was not finished before the completion window ended.' },
  cancelled: { code: 'batch_cancelled', message: 'The batch was cancelled before the line was finished.' },
} as const;

/** What a result says was used. */
export function usageOf({ promptTokens, completionTokens, cachedTokens, estimated }: BatchResult): TokenUsage {
  return { promptTokens, completionTokens, cachedTokens, estimated };
}

function named({ batch, line, customId, requestId }: Line): Line {
  return { batch, line, customId, requestId };
}

function tokensOf({ promptTokens, completionTokens, cachedTokens, estimated }: TokenUsage): TokenUsage {
  return { promptTokens, completionTokens, cachedTokens, estimated };
}
