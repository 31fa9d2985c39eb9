import { type Batch, type BatchResult, lineBytesMax, resultIdOf } from '../../../shared/batches/batch.ts';
import { ApiError, errorStatus, nestedErrorBody } from '../../../shared/errors.ts';
import type { TokenUsage } from '../../../shared/jobs/replies.ts';
import { noTokens } from '../../failover/answer-usage.ts';

type Line = Pick<BatchResult, 'batch' | 'line' | 'customId' | 'requestId' | 'model'>;
type AskedLine = Line & Pick<Batch, 'errorFormat'>;

/** The result of an answered line, for the output file. An answer that is too large is not stored, but it is charged. */
export function answeredLine(line: Line, body: string, usage: TokenUsage): BatchResult {
  if (Buffer.byteLength(body) > lineBytesMax) {
    const tooLarge = new ApiError('PAYLOAD_TOO_LARGE', 'The answer is larger than 4 MiB and was not kept.');
    return failedLine(line, tooLarge, usage);
  }
  return { ...named(line), ...tokensOf(usage), failed: false, status: 200, body, error: null };
}

/** No error of a line links to the documentation. */
const docsUrl = '';

/** The result of a line whose request was refused, in the form of an interactive response (contract.md#f4-results). */
export function refusedLine(line: AskedLine, error: ApiError): BatchResult {
  const { message, code } = error;
  const body = line.errorFormat === 'nested' ? nestedErrorBody(error, { docsUrl }) : { error: message, code };
  return { ...failedLine(line, error), status: errorStatus(error.code), body: JSON.stringify(body) };
}

/** The result of a line without an answer. `usage` is charged nevertheless. */
export function failedLine(
  line: Line,
  { code, message }: { code: string; message: string },
  usage: TokenUsage = noTokens,
): BatchResult {
  return { ...named(line), ...tokensOf(usage), failed: true, status: null, body: null, error: { code, message } };
}

/** The errors of lines that did not run, or did not finish, by how their batch ends. */
export const unfinished = {
  expired: { code: 'batch_expired', message: 'The line was not finished before the completion window ended.' },
  cancelled: { code: 'batch_cancelled', message: 'The batch was cancelled before the line was finished.' },
} as const;

/** The error of a line whose account has no room for its answer, which is not charged. */
export const noRoomLeft = {
  code: 'account_bytes_limit',
  message: 'The files and results of this account leave no room for the answer of this line.',
} as const;

/** The usage in a result. */
export function usageOf({ promptTokens, completionTokens, cachedTokens, estimated }: BatchResult): TokenUsage {
  return { promptTokens, completionTokens, cachedTokens, estimated };
}

function named({ batch, line, customId, requestId, model }: Line): Line {
  return { batch, line, customId, requestId, ...(model !== undefined && { model }) };
}

function tokensOf({ promptTokens, completionTokens, cachedTokens, estimated }: TokenUsage): TokenUsage {
  return { promptTokens, completionTokens, cachedTokens, estimated };
}

/** Formats one line of an output or error file, including its line feed. */
export function presentLine({ batch, line, customId, requestId, status, body, error }: BatchResult): string {
  const head = JSON.stringify({ id: resultIdOf(batch, line), custom_id: customId }).slice(0, -1);
  // As the backend wrote it, except line breaks, which in JSON are only between values.
  const answer = `{"status_code":${status},"request_id":${JSON.stringify(requestId)},"body":${body?.replace(/[\r\n]+/g, ' ')}}`;
  return `${head},"response":${body === null ? 'null' : answer},"error":${JSON.stringify(error)}}\n`;
}

/** How many bytes that line has at most. */
export function lineBytesOf(result: BatchResult): number {
  const { body } = result;
  return Buffer.byteLength(presentLine({ ...result, body: body && '' })) + Buffer.byteLength(body ?? '');
}
