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
