import type { Access } from './route.ts';

const text = { type: 'string' };
const count = { type: 'integer', minimum: 0 };
const amount = { anyOf: [count, { const: 'unlimited' }] };

const quotaHeaders = {
  'x-svc-quota-limit': { description: 'Token allowance of this month, including top-ups.', schema: amount },
  'x-svc-quota-used': { description: 'Tokens used this month.', schema: count },
  'x-svc-quota-remaining': { description: 'Tokens neither used nor reserved.', schema: amount },
  'x-svc-quota-reset': { description: 'The day on which the quota resets.', schema: { ...text, format: 'date' } },
  'x-svc-quota-overage': {
    description: 'Whether requests beyond the allowance are admitted.',
    schema: { enum: ['on', 'off'] },
  },
  'x-ratelimit-limit-requests': { description: 'Requests per minute.', schema: amount },
  'x-ratelimit-remaining-requests': { description: 'Remaining of that limit.', schema: amount },
  'x-ratelimit-reset-requests': {
    description: 'Time until the full limit is available again: `12ms`, `1s`, `6m0s`.',
    schema: text,
  },
  'x-ratelimit-limit-tokens': { description: 'Tokens per minute.', schema: amount },
  'x-ratelimit-remaining-tokens': { description: 'Remaining of that limit.', schema: amount },
  'x-ratelimit-reset-tokens': {
    description: 'Time until the full limit is available again: `12ms`, `1s`, `6m0s`.',
    schema: text,
  },
};

/** Response headers by name. `headersOf` and the routes say when each is sent. */
export const headerComponents = {
  'x-request-id': {
    description: 'The id of this request.',
    required: true,
    schema: { ...text, pattern: '^req_[0-9A-HJKMNP-TV-Z]{26}$' },
  },
  'request-id': { description: 'The same as `x-request-id`.', schema: text },
  'x-client-request-id': { description: 'The id that the client sent, if any.', schema: text },
  'retry-after': { description: 'Whole seconds to wait before a retry.', schema: { type: 'integer', minimum: 1 } },
  'retry-after-ms': { description: 'The same in milliseconds; official SDKs prefer it.', schema: count },
  'x-should-retry': {
    description: '`false` if a retry cannot succeed, `true` if it is needed to get the answer.',
    schema: { enum: ['false', 'true'] },
  },
  'www-authenticate': { description: 'The required scheme.', required: true, schema: { const: 'Bearer' } },
  link: { description: 'Link to the explanation of this error (RFC 8288).', required: true, schema: text },
  location: { description: 'Target of the redirect.', required: true, schema: text },
  etag: { description: 'For `If-None-Match`.', required: true, schema: text },
  'content-disposition': { description: 'The name of the file, if it is one.', schema: text },
  'x-svc-queue-ms': {
    description: 'Queue time of the request in milliseconds, until a worker took it or the wait timed out.',
    schema: count,
  },
  'x-svc-dropped': {
    description:
      'What the request contained and the model server did not get, by names such as `tools.web_search` and `tools.pattern`, at most 20.',
    schema: text,
  },
  'x-svc-estimated': {
    description: '`true` if a tokenizer of the service has counted, because no model server could.',
    schema: { const: 'true' },
  },
  'idempotent-replayed': {
    description: '`true` if this is the answer or the batch of an earlier request with the same idempotency key.',
    schema: { const: 'true' },
  },
  'idempotency-kept': {
    description: '`false` if a repeat with the same idempotency key will not get this answer.',
    schema: { const: 'false' },
  },
  'x-svc-original-request-id': { description: 'The id of that earlier request.', schema: text },
  ...quotaHeaders,
};

type HeaderName = keyof typeof headerComponents;

const forBrowsersThemselves: readonly string[] = ['www-authenticate', 'location', 'etag', 'content-disposition'];

/** The headers that pages of other origins may read: all of the table, except those that the browser itself uses. */
export const exposedHeaders = Object.keys(headerComponents)
  .filter((name) => !forBrowsersThemselves.includes(name))
  .join(',');

const retryHeaders: Partial<Record<number, readonly HeaderName[]>> = {
  401: ['www-authenticate', 'x-should-retry'],
  402: ['x-should-retry'],
  403: ['x-should-retry'],
  404: ['x-should-retry'],
  409: ['retry-after', 'x-should-retry'],
  429: ['retry-after', 'retry-after-ms', 'x-should-retry'],
  503: ['retry-after', 'retry-after-ms'],
};

/** Sent before the caller is known. */
const withoutQuota: readonly number[] = [401, 408, 431];

/** Headers of responses with this status, except those that the media type requires. Quota headers are sent only for API keys. */
export function headersOf(status: number, access: Access): HeaderName[] {
  const hasQuota = access === 'key' && !withoutQuota.includes(status);
  const quota = Object.keys(hasQuota ? quotaHeaders : {}) as HeaderName[]; // keys of a part of the table
  const help: HeaderName[] = status >= 400 ? ['link'] : [];
  return ['x-request-id', 'x-client-request-id', ...help, ...(retryHeaders[status] ?? []), ...quota];
}
