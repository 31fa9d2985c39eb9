import { isDeepStrictEqual } from 'node:util';
import type { RawAnswer } from './raw-http.ts';
import { requestId } from './refusal.ts';

const head = '400 VALIDATION_ERROR';
const noAuth = '401 NO_AUTH';
const invalidKey = '401 INVALID_KEY';
const invalidToken = '401 INVALID_TOKEN';
const forbidden = '403 FORBIDDEN';
const notFound = '404 NOT_FOUND';
const conflict = '409 CONFLICT';
const spent = '402 quota_exceeded';
const limited = '429 rate_limit_exceeded';
const body = ['413 PAYLOAD_TOO_LARGE', '415 UNSUPPORTED_MEDIA_TYPE'];

const signedIn = [head, noAuth, invalidToken, forbidden];
const withEither = [...signedIn, invalidKey];

/**
 * All that each route can answer, by its method and its path as the router has it: `200`, or the status and code of a
 * refusal. Left out is what every route has alike, by its own tests: 408, 431, and the faults of our own parts (503, 504);
 * and the 429 of an account that uploads too many files at once.
 */
export const documentedAnswers = {
  'POST /v1/chat/completions': ['200', ...withEither, ...body, spent, limited],
  'GET /v1/models': ['200', ...withEither],
  'GET /v1/models/*model': ['200', ...withEither, notFound],
  'GET /v1/keys/developer': ['200', ...signedIn],
  'POST /v1/keys/developer': ['200', ...signedIn, ...body],
  'POST /v1/keys/developer/rotate': ['200', ...signedIn, invalidKey, ...body],
  'POST /v1/keys/developer/revoke': ['200', ...signedIn, invalidKey, ...body],
  'POST /v1/keys/guest': ['200', head, forbidden, ...body, limited],
  'POST /v1/files': ['200', ...withEither, ...body],
  'GET /v1/files': ['200', ...withEither],
  'GET /v1/files/:file': ['200', ...withEither, notFound],
  'GET /v1/files/:file/content': ['200', ...withEither, notFound],
  'DELETE /v1/files/:file': ['200', ...withEither, notFound, conflict],
  'POST /v1/batches': ['200', ...withEither, ...body, limited],
  'GET /v1/batches': ['200', ...withEither],
  'GET /v1/batches/:batch': ['200', ...withEither, notFound],
  'POST /v1/batches/:batch/cancel': ['200', ...withEither, notFound, conflict],
  'GET /billing/quota': ['200', ...withEither],
  'GET /admin/accounts/:account': ['200', ...signedIn, notFound],
  'PATCH /admin/accounts/:account': ['200', ...signedIn, notFound, conflict, ...body],
} satisfies Record<string, readonly string[]>;

export type Route = keyof typeof documentedAnswers;
export const routes = Object.keys(documentedAnswers) as Route[]; // the keys of a literal table are its routes

const accountKeys = ['account', 'changes', 'createdAt', 'keys', 'overageEnabled', 'plan', 'suspended', 'topUp'];
const fileKeys = ['bytes', 'created_at', 'expires_at', 'filename', 'id', 'object', 'purpose', 'status'];
const batchKeys = [
  ...['cancelled_at', 'cancelling_at', 'completed_at', 'completion_window', 'created_at', 'endpoint', 'error_file_id'],
  ...['errors', 'expired_at', 'expires_at', 'failed_at', 'finalizing_at', 'id', 'in_progress_at', 'input_file_id'],
  ...['metadata', 'object', 'output_file_id', 'request_counts', 'status'],
];
const listKeys = ['data', 'first_id', 'has_more', 'last_id', 'object'];

/** The one answer that is a file, whose one line is JSON in these tests. */
const contentRoute = 'GET /v1/files/:file/content';

/** What is at the top of an answer that is no refusal. */
const goodKeys: Record<Route, readonly string[]> = {
  'POST /v1/chat/completions': ['choices', 'created', 'id', 'model', 'object', 'system_fingerprint', 'usage'],
  'GET /v1/models': ['data', 'object'],
  'GET /v1/models/*model': ['created', 'id', 'object', 'owned_by', 'tier'],
  'GET /v1/keys/developer': ['data', 'object'],
  'POST /v1/keys/developer': ['key', 'plan'],
  'POST /v1/keys/developer/rotate': ['key', 'plan', 'rotated'],
  'POST /v1/keys/developer/revoke': ['key', 'plan', 'revoked'],
  'POST /v1/keys/guest': ['key', 'plan', 'rate_limit_per_day'],
  'GET /billing/quota': [
    ...['limit', 'overageEnabled', 'overageUsed', 'period', 'plan', 'remaining', 'reserved', 'resetDate', 'topUp'],
    ...['topupUrl', 'unit', 'used'],
  ],
  'POST /v1/files': fileKeys,
  'GET /v1/files': listKeys,
  'GET /v1/files/:file': fileKeys,
  [contentRoute]: ['body', 'custom_id', 'method', 'url'],
  'DELETE /v1/files/:file': ['deleted', 'id', 'object'],
  'POST /v1/batches': batchKeys,
  'GET /v1/batches': listKeys,
  'GET /v1/batches/:batch': batchKeys,
  'POST /v1/batches/:batch/cancel': batchKeys,
  'GET /admin/accounts/:account': [...accountKeys, 'batches'].sort(),
  'PATCH /admin/accounts/:account': accountKeys,
};

const nestedKeys: Record<number, readonly string[]> = {
  402: ['code', 'message', 'overageEnabled', 'param', 'resetDate', 'topupUrl', 'type'],
  429: ['code', 'docs', 'message', 'param', 'retry_after_ms', 'type'],
};

/** `200`, or the status and code of a refusal. */
export function answerName({ status, body }: Pick<RawAnswer, 'status' | 'body'>): string {
  if (status === 200) return '200';
  const { code, error } = JSON.parse(body) as { code?: string; error?: { code?: string } }; // our own answer
  return `${status} ${code ?? error?.code}`;
}

/** Refusals of a head that is wrong: there is no route yet, and nothing of anybody's in them. */
const beforeAnyRoute = /^(x-client-request-id|request|Host): /;
/** Far above any message of ours: what a client sent is not sent back to it at any length. */
const refusalBytesMax = 2_000;

/** What is wrong with the shape that its status and code ask for (specification 7), and with the headers of its route. */
export function shapeFaults(route: Route, answer: RawAnswer): string[] {
  const { status, headers } = answer;
  const body = JSON.parse(answer.body);
  const nested = status in nestedKeys;
  const keys = status === 200 ? goodKeys[route] : nested ? ['error'] : ['code', 'error'];
  const stored = beforeAnyRoute.test(body.error) || !(route.includes('/v1/keys/') || route === contentRoute);
  const type =
    status === 200 && route === contentRoute ? 'application/octet-stream' : 'application/json; charset=utf-8';
  const claims: Record<string, boolean> = {
    'is by its type what it is': headers['content-type'] === type,
    'has a request id': requestId.test(headers['x-request-id'] ?? ''),
    'names the scheme of a 401, and of nothing else':
      headers['www-authenticate'] === (status === 401 ? 'Bearer' : undefined),
    'forbids storing where keys and files are': headers['cache-control'] === (stored ? undefined : 'no-store'),
    'has the keys of its shape': isDeepStrictEqual(Object.keys(body).sort(), keys),
    'says what is wrong': status === 200 || nested || typeof body.error === 'string',
    'has the nested keys': !nested || isDeepStrictEqual(Object.keys(body.error).sort(), nestedKeys[status]),
    'says that a retry is no use': headers['x-should-retry'] === (nested || status === 409 ? 'false' : undefined),
    'is short where it refuses': status === 200 || Buffer.byteLength(answer.body) <= refusalBytesMax,
  };
  return Object.keys(claims).filter((claim) => claims[claim] === false);
}
