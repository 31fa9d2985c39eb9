import type { IncomingMessage } from 'node:http';
import { ApiError } from '../shared/errors.ts';
import { hashKey, isWellFormedKey } from './api-key.ts';

/** What a request proves itself by: a key, as its hash under each pepper in use, or the account that signed in. */
export type Credential = KeyCredential | { account: string };
type KeyCredential = { hashes: readonly string[] };

/** RFC 6750 2.1; the scheme's name is case-insensitive (RFC 9110 11.1). */
const bearer = /^Bearer +([A-Za-z0-9._~+/-]+=*) *$/i;

/**
 * The token of `Authorization: Bearer <token>`. None at all, or an empty header, is `NO_AUTH`; any other form of it, or
 * more than one, is `INVALID_TOKEN` (specification 5.6, API C14).
 */
export function bearerToken(request: IncomingMessage): string {
  const values = request.headersDistinct.authorization ?? [];
  if (values.every((value) => value.trim() === '')) {
    throw new ApiError('NO_AUTH', 'No Authorization header. Send "Authorization: Bearer <API key>".');
  }
  const [value, another] = values;
  const token = another === undefined && value !== undefined ? bearer.exec(value)?.[1] : undefined;
  if (token === undefined) throw invalidToken();
  return token;
}

/** A key by its hashes; one with a typing error, or that is none, is `INVALID_KEY` with no I/O (API C1). */
export function keyCredential(key: string, peppers: readonly string[]): KeyCredential {
  if (!isWellFormedKey(key)) throw invalidKey();
  return { hashes: peppers.map((pepper) => hashKey(key, pepper)) };
}

export function invalidToken(cause?: unknown): ApiError {
  return new ApiError('INVALID_TOKEN', 'The bearer value is neither an API key nor a valid sign-in token.', { cause });
}

export function invalidKey(): ApiError {
  return new ApiError('INVALID_KEY', 'The API key is unknown, revoked or rotated away.');
}
