import type { IncomingMessage, ServerResponse } from 'node:http';
import { parse as parseContentType } from 'content-type';
import { ApiError } from '../../shared/errors.ts';
import { headerValues } from './headers.ts';

export function bodyTooSlow(): ApiError {
  return new ApiError('REQUEST_TIMEOUT', 'The body did not arrive in time.');
}

export function bodyEndedEarly(): ApiError {
  return new ApiError('VALIDATION_ERROR', 'body: ended before its announced length');
}

export function bodyTooLarge(bytesMax: number): ApiError {
  return new ApiError('PAYLOAD_TOO_LARGE', `The body is larger than ${bytesMax} bytes.`);
}

/** Returns the parameters of the only Content-Type, which must be this one; fails with `UNSUPPORTED_MEDIA_TYPE`. */
export function mediaParameters(
  request: IncomingMessage,
  mediaType: string,
): Readonly<Record<string, string | undefined>> {
  const [contentType, another] = headerValues(request, 'content-type');
  const { type, parameters } = parseContentType(contentType ?? '');
  if (type !== mediaType || another !== undefined) {
    throw unsupportedMedia(`content-type: expected exactly one, ${mediaType}`);
  }
  return parameters;
}

/** Refuses a compressed body, because a small one can be a large one; fails with `UNSUPPORTED_MEDIA_TYPE`. */
export function refuseCompressed(request: IncomingMessage): void {
  const encodings = headerValues(request, 'content-encoding');
  if (encodings.some((encoding) => encoding.toLowerCase() !== 'identity')) {
    throw unsupportedMedia('content-encoding: a compressed body is not accepted', { 'accept-encoding': 'identity' });
  }
}

export function unsupportedMedia(message: string, headers: Record<string, string> = {}): ApiError {
  return new ApiError('UNSUPPORTED_MEDIA_TYPE', message, { headers });
}

/** Sends 100 Continue if the client waits for it. HTTP/1.0 has no interim responses, so it must not receive one (RFC 9110 10.1.1). */
export function sendContinue({ req, res }: { req: IncomingMessage; res: ServerResponse }): void {
  if (req.headers.expect?.toLowerCase() === '100-continue' && req.httpVersion !== '1.0') res.writeContinue();
}

const soonestMs = 1_000;
const latestMs = 5_000;

/**
 * `SERVICE_UNAVAILABLE` for a request that exceeds the capacity. Official SDKs retry after exactly the given time. So it varies by some
 * seconds: requests that are refused together must not retry together. It varies by no more, because it is unknown how fast a queue drains,
 * and another refusal costs almost nothing. `random` returns numbers from 0 to 1.
 */
export function overloadError(reason: string, random: () => number = Math.random): ApiError {
  const retryAfterMs = Math.round(soonestMs + random() * (latestMs - soonestMs));
  return new ApiError('SERVICE_UNAVAILABLE', `The service is overloaded: ${reason}. Retry later.`, {
    retryAfterMs,
    headers: { 'retry-after-ms': String(retryAfterMs) },
  });
}
