import { gzipSync } from 'node:zlib';
import type { ExecutionContext } from 'ava';
import { makeKey, maskKey } from '../../ingress/authentication/api-key.ts';
import { head } from '../support/refusal.ts';

export const bodyBytesMax = 65_536;

/** One request, and the name of the expected answer. `says` is part of its body, `check` receives it parsed. */
export type Case = {
  answer: string;
  title: string;
  send: Buffer;
  says?: string | RegExp;
  check?: (t: ExecutionContext, body: Record<string, unknown>) => void;
};

/** Credentials in each state that routes distinguish. `expired` is a token, `eagerToken` that of an account with too many writes. */
export type Credentials = Record<
  | 'key'
  | 'token'
  | 'expired'
  | 'rotatedKey'
  | 'revokedKey'
  | 'expiredKey'
  | 'suspendedKey'
  | 'suspendedGuestKey'
  | 'suspendedToken'
  | 'eagerToken',
  string
>;

const json = 'Content-Type: application/json';

export type Request = { bearer?: string; lines?: readonly string[]; type?: string | undefined; body?: unknown };
/** The bytes of a request to one route. */
export type Call = (request: Request) => Buffer;

/** A body that is an object is sent as JSON, with the headers that a body needs unless they are given. */
export function callTo(method: string, path: string): Call {
  return function send({ bearer, lines = [], type = json, body }) {
    const bytes =
      Buffer.isBuffer(body) || typeof body === 'string' ? Buffer.from(body) : Buffer.from(JSON.stringify(body) ?? '');
    const ofBody = body === undefined ? [] : [type, `Content-Length: ${bytes.length}`].filter((line) => line !== '');
    const authorization = bearer === undefined ? [] : [`Authorization: Bearer ${bearer}`];
    return Buffer.concat([
      Buffer.from(head(`${method} ${path} HTTP/1.1`, ...authorization, ...lines, ...ofBody)),
      bytes,
    ]);
  };
}

const at =
  (answer: string) =>
  (title: string, send: Buffer, rest: Pick<Case, 'says' | 'check'> = {}): Case => ({ answer, title, send, ...rest });
export const ok = at('200');
export const invalid = at('400 VALIDATION_ERROR');
export const noAuth = at('401 NO_AUTH');
export const invalidKey = at('401 INVALID_KEY');
export const keyExpired = at('401 KEY_EXPIRED');
export const invalidToken = at('401 INVALID_TOKEN');
export const forbidden = at('403 FORBIDDEN');
export const notFound = at('404 NOT_FOUND');
export const conflict = at('409 CONFLICT');
export const resultLost = at('409 IDEMPOTENCY_RESULT_LOST');
export const mismatch = at('422 IDEMPOTENCY_MISMATCH');
export const tooLarge = at('413 PAYLOAD_TOO_LARGE');
export const unsupported = at('415 UNSUPPORTED_MEDIA_TYPE');
export const spent = at('402 quota_exceeded');
export const limited = at('429 rate_limit_exceeded');

/** Invalid heads, the same for every route and caller. */
export function headCases(call: Call, bearer: string | undefined, body?: unknown): Case[] {
  const request = { ...(bearer !== undefined && { bearer }), body };
  const says = 'x-client-request-id: ';
  return [
    invalid('a client id that is too long', call({ ...request, lines: [`X-Client-Request-Id: ${'x'.repeat(513)}`] }), {
      says,
    }),
    invalid('a client id with a space', call({ ...request, lines: ['X-Client-Request-Id: a b'] }), { says }),
  ];
}

/** Invalid `Authorization` headers, the same on every route that needs one. */
function unauthenticatedCases(call: Call, cast: Credentials, body?: unknown): Case[] {
  const as = (...lines: string[]) => call({ lines, body });
  return [
    noAuth('no header', as()),
    noAuth('an empty header', as('Authorization:')),
    noAuth('a blank header', as('Authorization:    ')),
    invalidToken('garbage', as('Authorization: Bearer abc')),
    invalidToken('another scheme', as('Authorization: Basic YTpi')),
    invalidToken('no scheme', as(`Authorization: ${cast.key}`)),
    invalidToken('nothing after the scheme', as('Authorization: Bearer')),
    invalidToken('two tokens', as(`Authorization: Bearer ${cast.token} ${cast.token}`)),
    invalidToken('two headers', as(`Authorization: Bearer ${cast.token}`, `Authorization: Bearer ${cast.token}`)),
    invalidToken('two headers, one of them empty', as('Authorization:', `Authorization: Bearer ${cast.key}`)),
    invalidToken('a masked key', as(`Authorization: Bearer ${maskKey(cast.key)}`)),
    invalidToken('an expired token', as(`Authorization: Bearer ${cast.expired}`)),
  ];
}

export function signedInCases(call: Call, cast: Credentials, body?: unknown): Case[] {
  return [
    ...unauthenticatedCases(call, cast, body),
    ...headCases(call, cast.token, body),
    invalidToken('a key', call({ bearer: cast.key, body })),
    invalidToken('an unknown key', call({ bearer: makeKey(), body })),
    invalidToken('a key with a typo', call({ bearer: 'svc_0', body })),
    forbidden('a suspended account', call({ bearer: cast.suspendedToken, body }), {
      says: 'This account is suspended.',
    }),
  ];
}

/** Cases of a route with which an account changes its own keys or settings. */
export function writeCases(call: Call, cast: Credentials, body?: unknown): Case[] {
  return [
    ...signedInCases(call, cast, body),
    limited('after many writes', call({ bearer: cast.eagerToken, body }), { says: '"type":"settings_limit"' }),
  ];
}

export function keyCases(call: Call, cast: Credentials, body?: unknown): Case[] {
  return [
    ...unauthenticatedCases(call, cast, body),
    ...headCases(call, cast.key, body),
    invalidKey('an unknown key', call({ bearer: makeKey(), body })),
    invalidKey(
      'a key with a typo',
      call({ bearer: `${cast.key.slice(0, -1)}${cast.key.endsWith('0') ? 1 : 0}`, body }),
    ),
    invalidKey('the prefix alone', call({ bearer: 'svc_', body })),
    invalidKey('a rotated key', call({ bearer: cast.rotatedKey, body })),
    invalidKey('a revoked key', call({ bearer: cast.revokedKey, body })),
    keyExpired('an expired key', call({ bearer: cast.expiredKey, body })),
    forbidden('a suspended account', call({ bearer: cast.suspendedKey, body }), { says: 'This account is suspended.' }),
    forbidden('a suspended device', call({ bearer: cast.suspendedGuestKey, body }), {
      says: 'This account is suspended.',
    }),
  ];
}

/** Invalid bodies, the same for every route. `good` is a valid body. */
export function bodyCases(call: Call, good: object, bearer?: string): Case[] {
  const as = (request: Request) => call({ ...(bearer !== undefined && { bearer }), ...request });
  const text = JSON.stringify(good);
  const chunks = `${(bodyBytesMax + 1).toString(16)}\r\n${' '.repeat(bodyBytesMax + 1)}\r\n0\r\n\r\n`;
  const chunked = Buffer.concat([as({ lines: [json, 'Transfer-Encoding: chunked'] }), Buffer.from(chunks)]);
  return [
    invalid('not JSON', as({ body: '{"a":' }), { says: 'body: expected valid JSON' }),
    invalid('nothing', as({ body: '' }), { says: 'body: expected valid JSON' }),
    invalid('trailing text', as({ body: `${text}x` }), { says: 'body: expected valid JSON' }),
    invalid('an array', as({ body: '[]' }), { says: 'body: expected a JSON object' }),
    invalid('a string', as({ body: '"x"' }), { says: 'body: expected a JSON object' }),
    invalid('null', as({ body: 'null' }), { says: 'body: expected a JSON object' }),
    invalid('not UTF-8', as({ body: Buffer.from('{"a":"\xff"}', 'latin1') }), { says: 'body: expected UTF-8' }),
    tooLarge('by its length', as({ lines: [json, `Content-Length: ${bodyBytesMax + 1}`] })),
    tooLarge('by count', chunked),
    unsupported('no type', as({ type: '', body: text })),
    unsupported('text', as({ type: 'Content-Type: text/plain', body: text })),
    unsupported('a form', as({ type: 'Content-Type: application/x-www-form-urlencoded', body: 'a=b' })),
    unsupported('another charset', as({ type: `${json}; charset=latin1`, body: text })),
    unsupported('compressed', as({ lines: ['Content-Encoding: gzip'], body: gzipSync(text) })),
  ];
}

/** Cases of a route that accepts a key or a sign-in token. */
export function eitherCases(call: Call, cast: Credentials, body?: unknown): Case[] {
  const suspended = call({ bearer: cast.suspendedToken, body });
  return [...keyCases(call, cast, body), forbidden('a suspended account with a sign-in token', suspended)];
}
