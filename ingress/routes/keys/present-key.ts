import type { Account } from '../../../shared/store/accounts/account.ts';
import { filesOf, isDefaultKey, type Key, type KeyLimits, validUntil } from '../../../shared/store/accounts/key.ts';
import type { KeyUsage } from '../../../shared/store/usage/usage-store.ts';
import { secondsOf } from '../../api/present-file.ts';
import type { ShownKey } from '../../api/response-schemas.ts';
import { maskKey } from '../../callers/api-key.ts';
import { isOver, keysOf } from '../../callers/key-list.ts';

type KeyFigures = {
  /** Redis's time, in milliseconds. */
  now: number;
  /** Of this month; null if the store cannot tell. */
  usage: KeyUsage | null;
  month: string;
};

/** A key as operators see it, without its settings and its usage. Times are in seconds, and null if there is none. */
export function presentShownKey(key: Key, at: Date): ShownKey {
  const { state, expiresAt, endsAt } = key;
  const isGraceOver = isOver(endsAt, at); // it ends when its account changes
  return {
    id: key.id,
    name: key.name,
    key: maskKey(key.display),
    default: isDefaultKey(key),
    state: state === 'active' && isOver(expiresAt, at) ? 'expired' : state,
    created_at: secondsOf(key.createdAt),
    expires_at: timeOf(expiresAt),
    valid_until: timeOf(endsAt && !isGraceOver ? validUntil(key) : undefined),
    ended_at: timeOf(isGraceOver ? endsAt : key.endedAt),
    last_used_at: timeOf(key.lastUsedAt),
  };
}

/** A key as its account sees it. */
export function presentKey(key: Key, { now, usage, month }: KeyFigures) {
  const { endpoints, models, allowedIps, limits } = key;
  return {
    object: 'key' as const,
    ...presentShownKey(key, new Date(now)),
    endpoints: endpoints ?? null,
    models: models ?? null,
    allowed_ips: allowedIps ?? null,
    limits: limits === undefined ? null : presentLimits(limits),
    files: filesOf(key),
    usage: usage && { month, requests: usage.requests, tokens: usage.chargedTokens },
  };
}

const listedKeysMax = 100;

/**
 * The last 100 keys of the routes of developer keys, newest first (contract.md#c10-revoke-and-list). There a key ends with its rotation,
 * also if it has a grace.
 */
export function presentDeveloperKeys(account: Account): object[] {
  const endOf = ({ endedAt }: Key) => endedAt?.getTime() ?? Number.MAX_VALUE;
  return keysOf(account)
    .filter(({ isDefault }) => isDefault)
    .map((key) => (key.rotatedAt ? { ...key, state: 'rotated' as const, endedAt: key.rotatedAt } : key))
    .toSorted((one, other) => endOf(other) - endOf(one))
    .slice(0, listedKeysMax)
    .map(({ id, display, plan = account.plan, state, createdAt, endedAt, lastUsedAt }) => ({
      id,
      key: maskKey(display),
      plan,
      state,
      createdAt,
      ...(endedAt !== undefined && { endedAt }),
      ...(lastUsedAt !== undefined && { lastUsedAt }),
    }));
}

function presentLimits({ requestsPerMinute, tokensPerMinute, tokensPerMonth }: KeyLimits) {
  return {
    requests_per_minute: requestsPerMinute ?? null,
    tokens_per_minute: tokensPerMinute ?? null,
    tokens_per_month: tokensPerMonth ?? null,
  };
}

function timeOf(date: Date | undefined): number | null {
  return date === undefined ? null : secondsOf(date);
}
