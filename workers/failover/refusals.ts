import { promptTooLong } from '../../shared/endpoints/answers/prompt-too-long.ts';
import { endpointAt } from '../../shared/endpoints/routes.ts';
import { ApiError } from '../../shared/errors.ts';
import type { QueuedCall } from '../../shared/jobs/inference-job.ts';
import type { RefusedBy, TooLong } from './answer-outcome.ts';
import { openAiCodes } from './kinds.ts';

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
