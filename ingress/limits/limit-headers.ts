import type { LimitCounters } from '../../shared/limits/admission.ts';
import type { Allowance } from '../../shared/limits/admit.ts';
import { quotaOf } from '../../shared/limits/quota.ts';
import type { KeyLimits } from '../../shared/store/records/key.ts';

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
