import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import { parse as parseContentType } from 'content-type';
import ipaddr from 'ipaddr.js';
import { ApiError, validationError } from '../../shared/errors.ts';

/**
 * Returns the values of all headers with this name (lower case), in order. Node's `headersDistinct` returns the same, but converts all
 * headers of the request.
 */
export function headerValues({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>, name: string): string[] {
  const values: string[] = [];
  for (let index = 1; index < rawHeaders.length; index += 2) {
    const [given = '', value = ''] = [rawHeaders[index - 1], rawHeaders[index]];
    if (given.length === name.length && given.toLowerCase() === name) values.push(value);
  }
  return values;
}

/** Sets several headers. Koa's `ctx.set` creates four arrays for that, which costs more than the headers. */
export function setHeaders(response: ServerResponse, headers: Readonly<Record<string, string>>): void {
  for (const name in headers) response.setHeader(name, headers[name] as string); // all values are strings
}

const valuePattern = /^[\x20-\x7e]{1,1024}$/;

/**
 * Returns the headers of a request that its backend gets, by their names in lower case; undefined if there are none. Fails with
 * `VALIDATION_ERROR` for a value that is not plain ASCII, or too long.
 */
export function passedHeaders(request: IncomingMessage, names: readonly string[]): Record<string, string> | undefined {
  const passed: Record<string, string> = {};
  for (const name of names) {
    const values = headerValues(request, name).filter((value) => value !== '');
    if (values.length === 0) continue;
    const value = values.join(', ');
    if (!valuePattern.test(value)) {
      throw validationError([{ path: name, message: 'expected at most 1,024 ASCII characters' }]);
    }
    passed[name] = value;
  }
  return Object.keys(passed).length === 0 ? undefined : passed;
}

/** Returns an address without a slash at its end, so that a path can follow. */
export function withoutSlash(url: string): string {
  return url.replace(/\/$/, '');
}

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

/**
 * Returns the address of the client as seen by the outermost of `trustedHops` proxies. Each proxy appends the address of its caller to
 * `X-Forwarded-For`. So the last entries are from our proxies, and earlier ones cannot be trusted; without a trusted proxy the header is
 * ignored. If the header is shorter, or the entry is not an address, returns the outermost valid address that one of our proxies has seen.
 */
export function clientAddress(request: IncomingMessage, trustedHops: number): string {
  const called = bareAddress(request.socket.remoteAddress ?? '') ?? 'unknown';
  if (trustedHops === 0) return called;
  const forwarded = headerValues(request, 'x-forwarded-for');
  const seen = forwarded
    .flatMap((line) => line.split(','))
    .slice(-trustedHops)
    .map(bareAddress);
  const [outermost] = seen.slice(seen.lastIndexOf(undefined) + 1);
  return outermost ?? called;
}

/**
 * Returns the network of a client: its IPv4 address, or the first `bits` bits of its IPv6 address. A /64 counts as one client, which can
 * usually choose any address of it (decisions.md#failed-lookups-counted-by-network).
 */
export function networkOf(text: string, bits: 64 | 56 | 48 = 64): string {
  const address = withoutZone(text);
  if (isIP(address) === 0) return address;
  const parsed = ipaddr.parse(address);
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString();
  if (parsed.isIPv4MappedAddress()) return parsed.toIPv4Address().toString();
  const [first, second, third, fourth = 0] = parsed.parts;
  const parts = bits === 48 ? [first, second, third] : [first, second, third, bits === 56 ? fourth & 0xff00 : fourth];
  return `${parts.map((part) => part?.toString(16)).join(':')}::/${bits}`;
}

/** Without port, brackets and zone, which some proxies add; undefined for anything but an address. */
function bareAddress(text: string): string | undefined {
  const trimmed = text.trim();
  const [, bracketed] = /^\[([^\]]+)\](?::\d+)?$/.exec(trimmed) ?? [];
  const [, withPort] = /^([\d.]+):\d+$/.exec(trimmed) ?? [];
  const address = withoutZone(bracketed ?? withPort ?? trimmed);
  return isIP(address) === 0 ? undefined : address;
}

/** A socket's link-local IPv6 address ends with `%` and the name of an interface. */
function withoutZone(address: string): string {
  return address.replace(/%.*$/, '');
}
