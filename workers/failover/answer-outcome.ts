import { promptTooLong } from '../../shared/endpoints/answers/backend-error.ts';
import { endpointAt } from '../../shared/endpoints/endpoints.ts';
import { ApiError } from '../../shared/errors.ts';
import type { QueuedCall } from '../../shared/jobs/inference-job.ts';
import type { Answer, UsageCounter } from './answer-request.ts';
import { type Decision, openAiCodes } from './decide-outcome.ts';

/** What a backend said about a request that is at fault, as its client may see it. `words` are empty if it said nothing readable. */
type RefusedBy = Pick<Decision, 'status' | 'kinds' | 'param'> & { words: string };

/** The numbers of a prompt that is too long, as far as they are known. */
export type TooLong = Pick<Decision, 'promptTokens' | 'contextTokens'>;

/** `received` and `produced`: as in an attempt. */
export type UsageCounters = { received?: UsageCounter | undefined; produced?: UsageCounter | undefined };

/**
 * The result of asking the backends of a run. `refused`: the request is at fault. `too_long`: it fits into the context of no backend.
 * `exhausted`: no backend answers; `attempted` are those that were tried, in order, and one may be called in `retryAfterMs`. `too_large`:
 * the answer exceeds the limit of its model. `late`: no backend had room in time. `interrupted`: the answer broke off after text was sent.
 * `stopped`: the signal was aborted. `fault`: an error of ours.
 */
export type AnswerOutcome = UsageCounters &
  (
    | { outcome: 'answered'; answer: Answer }
    | { outcome: 'refused'; by: RefusedBy }
    | { outcome: 'too_long'; numbers: TooLong }
    | { outcome: 'exhausted'; attempted: string[]; retryAfterMs: number }
    | { outcome: 'interrupted' | 'late' | 'stopped' | 'too_large' }
    | { outcome: 'fault'; error: unknown }
  );

const fieldPath = /^[A-Za-z_][\w.[\]-]{0,79}$/;

/**
 * The client's error for what a backend has refused, with its words (contract.md#d9-faults-of-the-request). `path`: what they are about.
 */
export function refusedBy({ words, status, kinds, param }: RefusedBy, path: string): ApiError {
  const message = words || 'The model server refused the request.';
  const code = kinds.find((kind) => openAiCodes.has(kind));
  const openAi = {
    ...(code !== undefined && { code }),
    ...(param !== undefined && fieldPath.test(param) && { param }),
  };
  if (status === 413) return new ApiError('PAYLOAD_TOO_LARGE', message, { openAi });
  return new ApiError('VALIDATION_ERROR', `${path}: ${message}`, { openAi });
}

/** The client's error for a prompt that fits into no context. */
export function tooLongFor(
  { endpoint }: Pick<QueuedCall, 'endpoint'>,
  { promptTokens, contextTokens }: TooLong,
): ApiError {
  return promptTooLong(endpointAt(endpoint).request.promptField, {
    ...(promptTokens !== undefined && { promptTokens }),
    ...(contextTokens !== undefined && { contextTokens }),
  });
}
