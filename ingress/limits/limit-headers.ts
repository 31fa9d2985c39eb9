import type { LimitCounters } from '../../shared/limits/admission.ts';
import type { Allowance } from '../../shared/limits/admit.ts';
import { quotaOf } from '../../shared/limits/quota.ts';

const unlimited = 'unlimited';

/** Returns the headers with an account's limits and usage, for every response to an inference request (contract.md#e6-limit-headers). */
export function limitHeaders(counters: LimitCounters, allowance: Allowance): Record<string, string> {
  const { limit, used, remaining, period } = quotaOf(counters, allowance);
  const { requestsPerMinute, tokensPerMinute } = allowance;
  const { requests, tokens, resetMs } = counters.lastMinute;
  return {
    'x-svc-quota-limit': String(limit ?? unlimited),
    'x-svc-quota-used': String(used),
    'x-svc-quota-remaining': String(remaining ?? unlimited),
    'x-svc-quota-reset': period.end,
    'x-svc-quota-overage': allowance.overageEnabled ? 'on' : 'off',
    'x-ratelimit-limit-requests': String(requestsPerMinute ?? unlimited),
    'x-ratelimit-remaining-requests': remainingOf(requestsPerMinute, requests),
    'x-ratelimit-reset-requests': resetOf(requestsPerMinute, resetMs),
    'x-ratelimit-limit-tokens': String(tokensPerMinute ?? unlimited),
    'x-ratelimit-remaining-tokens': remainingOf(tokensPerMinute, tokens),
    'x-ratelimit-reset-tokens': resetOf(tokensPerMinute, resetMs),
  };
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
