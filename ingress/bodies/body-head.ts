import type { IncomingMessage, ServerResponse } from 'node:http';
import { parse as parseContentType } from 'content-type';
import { ApiError } from '../../shared/errors.ts';
import { headerValues } from '../api/header-values.ts';

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
