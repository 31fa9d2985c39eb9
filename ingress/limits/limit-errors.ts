import {
  type ApiError,
  type BurstLimit,
  keyQuotaExceeded,
  quotaExceeded,
  rateLimitExceeded,
} from '../../shared/errors.ts';
import { keptBytesMax } from '../../shared/jobs/idempotency.ts';
import type { Limit, LimitCounters } from '../../shared/limits/admission.ts';
import type { Allowance } from '../../shared/limits/admit.ts';
import { overageMaxOf, quotaOf } from '../../shared/limits/quota.ts';
import type { KeyLimits } from '../../shared/store/records/key.ts';

type LimitRefusal = {
  limit: Limit;
  waitMs: number;
  counters: LimitCounters;
  allowance: Allowance;
  /** The limits of the caller's key, if it has limits of its own. */
  keyLimits?: KeyLimits | undefined;
  /** The most requests at once of an account while room to wait is short (queue-bounds.ts). */
  fairShare?: number | undefined;
  topupUrl: string;
};

type Limits = { allowance: Allowance; keyLimits: KeyLimits };

const bursts: Record<
  Exclude<Limit, 'quota' | 'key_quota'>,
  { type: BurstLimit; message: (limits: Limits) => string }
> = {
  requests: {
    type: 'requests_limit',
    message: ({ allowance: { requestsPerMinute } }) =>
      `The limit of ${requestsPerMinute} requests per minute is reached.`,
  },
  tokens: {
    type: 'tokens_limit',
    message: ({ allowance: { tokensPerMinute } }) =>
      `The limit of ${tokensPerMinute} tokens per minute leaves too little for this request.`,
  },
  day: {
    type: 'daily_limit',
    message: ({ allowance: { requestsPerDay } }) => `The limit of ${requestsPerDay} requests per day (UTC) is reached.`,
  },
  concurrency: {
    type: 'concurrency_limit',
    message: ({ allowance: { requestsAtOnce } }) => `The limit of ${requestsAtOnce} requests at once is reached.`,
  },
  idempotency: {
    type: 'idempotency_limit',
    message: () =>
      `This account has reached its limit of ${keptBytesMax / 1_048_576} MiB of answers that are kept for repeats.`,
  },
  key_requests: {
    type: 'key_requests_limit',
    message: ({ keyLimits: { requestsPerMinute } }) =>
      `This API key's limit of ${requestsPerMinute} requests per minute is reached.`,
  },
  key_tokens: {
    type: 'key_tokens_limit',
    message: ({ keyLimits: { tokensPerMinute } }) =>
      `This API key's limit of ${tokensPerMinute} tokens per minute leaves too little for this request.`,
  },
};

/**
 * Returns the error for a request that would exceed a limit: 402 if the quota of the month is used up, otherwise 429 with the time to wait
 * (contract.md#b7-types-of-limits).
 */
export function limitError({
  limit,
  waitMs,
  counters,
  allowance,
  keyLimits = {},
  fairShare,
  topupUrl,
}: LimitRefusal): ApiError {
  if (limit === 'quota' || limit === 'key_quota') {
    const resetDate = quotaOf(counters, allowance).period.end;
    const spent = { resetDate, topupUrl, overageEnabled: allowance.overageEnabled };
    return limit === 'quota' ? quotaExceeded(spent, overageMaxOf(allowance)) : keyQuotaExceeded(spent);
  }
  const { type, message } = bursts[limit];
  const isShare = limit === 'concurrency' && isLess(fairShare, allowance.requestsAtOnce);
  const reason = isShare ? shareMessage(fairShare) : message({ allowance, keyLimits });
  return rateLimitExceeded(type, `${reason} Retry in ${waitMs} ms.`, waitMs);
}

/** A share of 0 means that the payloads of the account's jobs already use its share of memory. */
function shareMessage(fairShare: number): string {
  if (fairShare === 0) return 'The service is busy, and the waiting requests of this account take its share of memory.';
  return `The service is busy: an account may have ${fairShare} requests at once, waiting and running.`;
}

/** Returns the allowance with its requests at once reduced to the share of the account. */
export function withShare(allowance: Allowance, fairShare: number | undefined): Allowance {
  return isLess(fairShare, allowance.requestsAtOnce) ? { ...allowance, requestsAtOnce: fairShare } : allowance;
}

/** An `undefined` limit is no limit. */
function isLess(limit: number | undefined, other: number | undefined): limit is number {
  return limit !== undefined && (other === undefined || limit < other);
}

const unlimited = 'unlimited';

/**
 * Returns the headers with a caller's limits and usage, for every response to an inference request (contract.md#e6-limit-headers). Of the
 * limits of the account and of its key, those that leave less are shown.
 */
export function limitHeaders(
  counters: LimitCounters,
  allowance: Allowance,
  keyLimits: KeyLimits = {},
): Record<string, string> {
  const { limit, chargedTokens, remaining, period } = quotaOf(counters, allowance);
  const { lastMinute, key } = counters;
  const requests = narrower(
    { limit: allowance.requestsPerMinute, charged: lastMinute.requests, ...lastMinute },
    key && { limit: keyLimits.requestsPerMinute, charged: key.lastMinute.requests, ...key.lastMinute },
  );
  const tokens = narrower(
    { limit: allowance.tokensPerMinute, charged: lastMinute.tokens, ...lastMinute },
    key && { limit: keyLimits.tokensPerMinute, charged: key.lastMinute.tokens, ...key.lastMinute },
  );
  return {
    'x-svc-quota-limit': String(limit ?? unlimited),
    'x-svc-quota-used': String(chargedTokens),
    'x-svc-quota-remaining': String(remaining ?? unlimited),
    'x-svc-quota-reset': period.end,
    'x-svc-quota-overage': allowance.overageEnabled ? 'on' : 'off',
    'x-ratelimit-limit-requests': String(requests.limit ?? unlimited),
    'x-ratelimit-remaining-requests': remainingOf(requests.limit, requests.charged),
    'x-ratelimit-reset-requests': resetOf(requests.limit, requests.resetMs),
    'x-ratelimit-limit-tokens': String(tokens.limit ?? unlimited),
    'x-ratelimit-remaining-tokens': remainingOf(tokens.limit, tokens.charged),
    'x-ratelimit-reset-tokens': resetOf(tokens.limit, tokens.resetMs),
  };
}

type LimitState = { limit: number | undefined; charged: number; resetMs: number };

function narrower(account: LimitState, key: LimitState | undefined): LimitState {
  if (key?.limit === undefined) return account;
  return account.limit === undefined || key.limit - key.charged < account.limit - account.charged ? key : account;
}

function remainingOf(limit: number | undefined, charged: number): string {
  return limit === undefined ? unlimited : String(Math.max(0, limit - charged));
}

/** When the full limit is available again, as in OpenAI's header of this name. */
function resetOf(limit: number | undefined, resetMs: number): string {
  return formatDuration(limit === undefined ? 0 : resetMs);
}

/** Formats a duration as OpenAI does: `12ms`, `1s`, `1.5s`, `6m0s`. */
export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${ms}ms`;
  if (ms < 60_000) return `${ms / 1_000}s`;
  return `${Math.floor(ms / 60_000)}m${(ms % 60_000) / 1_000}s`;
}
