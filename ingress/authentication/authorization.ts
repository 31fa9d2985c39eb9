import type { IncomingMessage } from 'node:http';
import { ApiError } from '../../shared/errors.ts';
import { headerValues } from '../listener/request-headers.ts';
import { hashKey, isWellFormedKey, keyPrefix } from './api-key.ts';

/** The credential of a request: a key, by its hash under each pepper in use, or the account that signed in. */
export type Credential = KeyCredential | { account: string };
type KeyCredential = { hashes: readonly string[] };

/** RFC 6750 2.1; the scheme's name is case-insensitive (RFC 9110 11.1). */
const bearer = /^Bearer +([A-Za-z0-9._~+/-]+=*) *$/i;
const bearerScheme = /^Bearer(?: |$)/i;

/** Other headers that may hold an API key: clients of Anthropic and of Azure send it there. */
export const keyHeaders = ['x-api-key', 'api-key'] as const;

/** The credential that a route accepts, for error messages. */
type CredentialKind = 'API key' | 'sign-in token' | 'API key or sign-in token';

/** A key is only recognised here, and not checked. */
type SentCredential = { token: string; isKey: boolean };

/**
 * Returns the token of `Authorization: Bearer <token>`, or the API key of another header (contract.md#d11-headers-of-a-key). Without any it
 * is `NO_AUTH`; any other form, a repeated header, and two different credentials are `INVALID_TOKEN`. If the route takes only sign-in
 * tokens and one is sent, the other headers are ignored.
 */
export function sentCredential(request: IncomingMessage, wanted: CredentialKind): SentCredential {
  const token = bearerToken(request, wanted);
  if (token !== undefined && wanted === 'sign-in token') return { token, isKey: token.startsWith(keyPrefix) };
  const keys = keyHeaders.map((name) => soleValue(request, name)).filter((value) => value !== undefined);
  const [sent, ...others] = token === undefined ? keys : [token, ...keys];
  if (sent === undefined) {
    const missing = wanted === 'sign-in token' ? 'Authorization' : 'Authorization, x-api-key or api-key';
    throw new ApiError('NO_AUTH', `No ${missing} header. ${helpFor(wanted)}`);
  }
  if (others.some((other) => other !== sent)) {
    throw new ApiError(
      'INVALID_TOKEN',
      `The headers Authorization, ${keyHeaders.join(' and ')} hold different credentials.`,
    );
  }
  return { token: sent, isKey: token === undefined || token.startsWith(keyPrefix) };
}

function bearerToken(request: IncomingMessage, wanted: CredentialKind): string | undefined {
  const value = soleValue(request, 'authorization');
  if (value === undefined) return undefined;
  if (!bearerScheme.test(value)) {
    throw new ApiError('INVALID_TOKEN', `The Authorization header does not begin with "Bearer ". ${helpFor(wanted)}`);
  }
  const token = bearer.exec(value)?.[1];
  if (token === undefined) throw invalidToken();
  return token;
}

function helpFor(wanted: CredentialKind): string {
  return `Send "Authorization: Bearer <${wanted}>".`;
}

/** Returns undefined for a missing or empty header. */
function soleValue(request: IncomingMessage, name: 'authorization' | (typeof keyHeaders)[number]): string | undefined {
  const values = headerValues(request, name);
  if (values.every((value) => value.trim() === '')) return undefined;
  if (values.length > 1) {
    const shown = name === 'authorization' ? 'Authorization' : name;
    throw new ApiError('INVALID_TOKEN', `More than one ${shown} header.`);
  }
  return name === 'authorization' ? values[0] : values[0]?.trim();
}

/** The credential of a key. A malformed key is `INVALID_KEY`, without I/O. */
export function keyCredential(key: string, peppers: readonly string[]): KeyCredential {
  if (!isWellFormedKey(key)) {
    throw new ApiError('INVALID_KEY', 'The API key is malformed: it is incomplete, or has a typing error.');
  }
  return { hashes: peppers.map((pepper) => hashKey(key, pepper)) };
}

export function invalidToken(cause?: unknown): ApiError {
  return new ApiError('INVALID_TOKEN', 'The bearer value is neither an API key nor a valid sign-in token.', { cause });
}

/** The same error in all cases: no response reveals whether a key ever existed (contract.md#b11-reasons-of-a-401). */
export function invalidKey(): ApiError {
  return new ApiError('INVALID_KEY', 'The API key is unknown, revoked or rotated.');
}

/** An API key was sent to a route that takes a sign-in token. Whether it is valid is not looked up. */
export function signInNeeded(): ApiError {
  return new ApiError('INVALID_TOKEN', 'This route takes a sign-in token, and an API key was sent.');
}

/** A valid sign-in token was sent to a route that takes an API key. */
export function keyNeeded(): ApiError {
  return new ApiError('INVALID_KEY', 'This route takes an API key, and a sign-in token was sent.');
}
