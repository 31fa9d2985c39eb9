import { type ApiError, errorDetails, errorStatus } from '../../errors.ts';
import { namedEvent } from '../answers/convert-events.ts';
import { isPromptTooLong } from '../answers/prompt-too-long.ts';
import type { ErrorFormat, StreamEnding } from '../definition/error-format.ts';

/** Anthropic's types of errors by status (Anthropic API reference, errors). */
const types: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  409: 'conflict_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
};

/** Errors in Anthropic's shape (contract.md#g5-messages). The `type` of a limit, which this shape has for another purpose, is `limit`. */
export const messageErrors: ErrorFormat = {
  body: (error, { docsUrl, requestId }) => errorOf(error, requestId, errorDetails(error, docsUrl)),
};

function errorOf(error: ApiError, requestId: string, details: Readonly<Record<string, unknown>>) {
  const { code } = error;
  const { type: limit, ...fields } = details;
  const message = isPromptTooLong(error) ? tooLongMessage(error) : error.message;
  const status = errorStatus(code);
  const type = types[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
  const inner = {
    type,
    message,
    code,
    ...fields,
    ...(limit !== undefined && { limit }),
    ...(error.issues.some(({ path }) => path === 'thread') && { details: noThreads }),
  };
  return { type: 'error', error: inner, request_id: requestId };
}

/** Anthropic's words for a conversation that the server would keep: its tool runners go on without one (contract.md#d15-other-clients). */
const noThreads = { error_code: 'thread_unsupported_request', unsupported: ['thread'] };

/** In Anthropic's words: agents compact their history on them (contract.md#ms6-context). */
function tooLongMessage({ fields }: ApiError): string {
  const { prompt_tokens: tokens, context_tokens: most } = fields;
  const numbers = tokens === undefined || most === undefined ? '' : `: ${tokens} tokens > ${most} maximum`;
  return `prompt is too long${numbers}`;
}

/** A complete stream needs no further event, and one that broke off ends with `event: error`. */
export const messageEnding: StreamEnding = {
  complete: () => '',
  broken: (error, requestId) => namedEvent(errorOf(error, requestId, {})),
};
