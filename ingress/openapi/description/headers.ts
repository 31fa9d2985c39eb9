import type { Credential } from './route-description.ts';

const text = { type: 'string' };
const wholeNumber = { type: 'integer', minimum: 0 };
const amount = { anyOf: [wholeNumber, { const: 'unlimited' }] };

const quotaHeaders = {
  'x-svc-quota-limit': { description: "The month's allowance in tokens, top-ups included.", schema: amount },
  'x-svc-quota-used': { description: 'Tokens used this month.', schema: wholeNumber },
  'x-svc-quota-remaining': { description: 'Tokens neither used nor reserved.', schema: amount },
  'x-svc-quota-reset': { description: 'The day on which the quota refreshes.', schema: { ...text, format: 'date' } },
  'x-svc-quota-overage': {
    description: 'Whether requests go on past the allowance.',
    schema: { enum: ['on', 'off'] },
  },
  'x-ratelimit-limit-requests': { description: 'Requests per minute.', schema: amount },
  'x-ratelimit-remaining-requests': { description: 'Of those, left now.', schema: amount },
  'x-ratelimit-reset-requests': {
    description: 'Until the whole limit is there again: `12ms`, `1s`, `6m0s`.',
    schema: text,
  },
  'x-ratelimit-limit-tokens': { description: 'Tokens per minute.', schema: amount },
  'x-ratelimit-remaining-tokens': { description: 'Of those, left now.', schema: amount },
  'x-ratelimit-reset-tokens': {
    description: 'Until the whole limit is there again: `12ms`, `1s`, `6m0s`.',
    schema: text,
  },
};

/** Headers of answers, by their names; each is there where `headersOf` says, or where its description says so. */
export const headerComponents = {
  'x-request-id': {
    description: 'The id of this request.',
    required: true,
    schema: { ...text, pattern: '^req_[0-9A-HJKMNP-TV-Z]{26}$' },
  },
  'x-client-request-id': { description: "The client's own id, where it sent one.", schema: text },
  'retry-after': { description: 'Whole seconds to wait before a retry.', schema: { type: 'integer', minimum: 1 } },
  'retry-after-ms': { description: 'The same in milliseconds; official SDKs heed it first.', schema: wholeNumber },
  'x-should-retry': { description: '`false` where a retry is of no use.', schema: { const: 'false' } },
  'www-authenticate': { description: 'The scheme that is asked for.', required: true, schema: { const: 'Bearer' } },
  link: { description: 'Where this error is explained (RFC 8288).', required: true, schema: text },
  location: { description: 'Where to go.', required: true, schema: text },
  etag: { description: 'For `If-None-Match`.', required: true, schema: text },
  'content-disposition': { description: "The file's name.", required: true, schema: text },
  'x-svc-queue-ms': {
    description:
      'How long the request waited in its queue, in milliseconds, until a worker took it or it had waited too long.',
    schema: wholeNumber,
  },
  ...quotaHeaders,
};

export type HeaderName = keyof typeof headerComponents;

const retryHeaders: Partial<Record<number, readonly HeaderName[]>> = {
  401: ['www-authenticate'],
  402: ['x-should-retry'],
  409: ['x-should-retry'],
  429: ['retry-after', 'retry-after-ms', 'x-should-retry'],
  503: ['retry-after', 'retry-after-ms'],
};

/** Before anybody is known, nobody's standing is. */
const withoutQuota: readonly number[] = [401, 408, 431];

/** What the answers of this status have beside what their media type needs. Standing is told with an API key alone. */
export function headersOf(status: number, credential: Credential): HeaderName[] {
  const tellsQuota = credential === 'key' && !withoutQuota.includes(status);
  const quota = Object.keys(tellsQuota ? quotaHeaders : {}) as HeaderName[]; // the names of a part of the table
  const help: HeaderName[] = status >= 400 ? ['link'] : [];
  return ['x-request-id', 'x-client-request-id', ...help, ...(retryHeaders[status] ?? []), ...quota];
}
