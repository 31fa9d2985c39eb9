import type { IncomingMessage } from 'node:http';
import { ApiError } from '../../shared/errors.ts';
import { headerValues } from '../api/header-values.ts';
import { hashKey, isWellFormedKey } from './api-key.ts';

/** The credential of a request: a key, by its hash under each pepper in use, or the account that signed in. */
export type Credential = KeyCredential | { account: string };
type KeyCredential = { hashes: readonly string[] };

/** RFC 6750 2.1; the scheme's name is case-insensitive (RFC 9110 11.1). */
const bearer = /^Bearer +([A-Za-z0-9._~+/-]+=*) *$/i;
const bearerScheme = /^Bearer(?: |$)/i;

/** The credential that a route accepts, for error messages. */
type Wanted = 'API key' | 'sign-in token' | 'API key or sign-in token';

/**
 * Returns the token of `Authorization: Bearer <token>`. A missing or empty header is `NO_AUTH`; any other form, or more than one header,
 * is `INVALID_TOKEN`. Without that header, the value of `otherHeader` is the token.
 */
export function bearerToken(request: IncomingMessage, wanted: Wanted, otherHeader?: string): string {
  const values = headerValues(request, 'authorization');
  const help = `Send "Authorization: Bearer <${wanted}>".`;
  if (values.every((value) => value.trim() === '')) {
    const key = otherHeader === undefined ? undefined : keyIn(request, otherHeader);
    if (key !== undefined) return key;
    const missing = otherHeader === undefined ? 'Authorization' : `Authorization or ${otherHeader}`;
    throw new ApiError('NO_AUTH', `No ${missing} header. ${help}`);
  }
  const [value = '', another] = values;
  if (another !== undefined) throw new ApiError('INVALID_TOKEN', 'More than one Authorization header.');
  if (!bearerScheme.test(value)) {
    throw new ApiError('INVALID_TOKEN', `The Authorization header does not begin with "Bearer ". ${help}`);
  }
  const token = bearer.exec(value)?.[1];
  if (token === undefined) throw invalidToken();
  return token;
}

function keyIn(request: IncomingMessage, header: string): string | undefined {
  const [value = '', another] = headerValues(request, header).map((each) => each.trim());
  if (another !== undefined) throw new ApiError('INVALID_TOKEN', `More than one ${header} header.`);
  return value === '' ? undefined : value;
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
