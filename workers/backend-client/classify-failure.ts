import type { IncomingHttpHeaders } from 'node:http';
import { errors } from 'undici';
import { BackendError } from '../../shared/endpoints/answers/backend-error.ts';

/** A backend that asks for a shorter or longer pause is called again after these times. */
const retryAfterMs = { min: 250, max: 60_000 };

/** Classifies a failed call: a `BackendError` is returned unchanged, anything else by undici's error classes. */
export function classifyFailure(error: unknown, { wasSent = true }: { wasSent?: boolean } = {}): BackendError {
  if (error instanceof BackendError) return error;
  const details = { cause: error, wasSent };
  if (error instanceof errors.ConnectTimeoutError)
    return new BackendError('connect_timeout', 'no connection in time', details);
  if (error instanceof errors.HTTPParserError) return new BackendError('unreadable', 'the answer is not HTTP', details);
  if (error instanceof errors.ResponseContentLengthMismatchError) {
    return new BackendError('unreadable', 'the length of the answer differs from its content-length', details);
  }
  return new BackendError('connection', 'the connection failed', details);
}

/**
 * In seconds or as a date (RFC 9110 10.2.3), or in milliseconds as OpenAI sends it. Undefined if a response has none, or asks for no pause.
 */
export function readRetryAfter(headers: IncomingHttpHeaders, now = Date.now()): number | undefined {
  const milliseconds = Number(single(headers['retry-after-ms']) ?? Number.NaN);
  const text = single(headers['retry-after']) ?? '';
  const waitMs = /^\d+$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - now;
  const known = [milliseconds, waitMs].find((ms) => ms > 0);
  return known === undefined ? undefined : Math.min(Math.max(known, retryAfterMs.min), retryAfterMs.max);
}

function single(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' ? header : header?.[0];
}
