import type { IncomingHttpHeaders } from 'node:http';
import { errors } from 'undici';
import { BackendError } from '../../shared/endpoints/answers/backend-error.ts';
import { backendMessageIn } from '../../shared/endpoints/answers/backend-message.ts';
import { relayedText } from './relayed-text.ts';

/** The backend reports an error in the request: another backend would report the same (contract.md#d9-faults-of-the-request). */
const clientMistakes = new Set([400, 413, 422]);

/** The backend has no such route. */
const withoutRoute = new Set([404, 405, 501]);

/** A backend that asks for a longer pause is called again after this time. */
const retryAfterMsMax = 600_000;

type Refusal = {
  status: number;
  body: string;
  headers?: IncomingHttpHeaders;
  now?: number;
  /** The key of the call. The backend may repeat it. */
  apiKey?: string | undefined;
  /** Whether the backend may lack the route. */
  isOptional?: boolean | undefined;
  /** Whether its message may reach a client. Default: true. */
  relayMessages?: boolean | undefined;
};

/** Classifies a status other than 2xx: the client's error with the backend's message, or a failure of the backend. */
export function classifyStatus(refusal: Refusal): BackendError {
  const { status, headers = {}, now = Date.now(), isOptional } = refusal;
  if (isOptional && withoutRoute.has(status)) return new BackendError('not_offered', `the backend answered ${status}`);
  if (!clientMistakes.has(status)) {
    const retryAfterMs = readRetryAfter(headers, now);
    return new BackendError('status', `the backend answered ${status}`, { retryAfterMs });
  }
  return new BackendError('refused_request', messageOf(refusal) || 'The model server refused the request.');
}

/** Classifies a failed call: a `BackendError` is returned unchanged, anything else by undici's error classes. */
export function classifyFailure(error: unknown): BackendError {
  if (error instanceof BackendError) return error;
  if (error instanceof errors.ConnectTimeoutError)
    return new BackendError('connect_timeout', 'no connection in time', { cause: error });
  if (error instanceof errors.HTTPParserError)
    return new BackendError('unreadable', 'the answer is not HTTP', { cause: error });
  if (error instanceof errors.ResponseContentLengthMismatchError) {
    return new BackendError('unreadable', 'the length of the answer differs from its content-length', { cause: error });
  }
  return new BackendError('connection', 'the connection failed', { cause: error });
}

/** In seconds or as a date (RFC 9110 10.2.3), or in milliseconds as OpenAI sends it. */
function readRetryAfter(headers: IncomingHttpHeaders, now: number): number | undefined {
  const milliseconds = Number(single(headers['retry-after-ms']) ?? Number.NaN);
  const text = single(headers['retry-after']) ?? '';
  const waitMs = /^\d+$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - now;
  const known = [milliseconds, waitMs].find((ms) => ms > 0);
  return known === undefined ? undefined : Math.min(known, retryAfterMsMax);
}

function single(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' ? header : header?.[0];
}

function messageOf({ body, apiKey, relayMessages = true }: Refusal): string | undefined {
  if (!relayMessages) return undefined;
  try {
    const message = backendMessageIn(JSON.parse(body));
    return message === undefined ? undefined : relayedText(message, apiKey);
  } catch {
    return undefined;
  }
}
