import type { Account } from '../../../shared/store/accounts/account.ts';
import { filesOf, isDefaultKey, type Key, type KeyLimits, validUntil } from '../../../shared/store/accounts/key.ts';
import type { KeyUsage } from '../../../shared/store/usage/read-usage-details.ts';
import { secondsOf } from '../../api/present-file.ts';
import { maskKey } from '../../callers/api-key.ts';
import { isOver, keysOf } from '../../callers/key-list.ts';

type KeyFigures = {
  /** Redis's time, in milliseconds. */
  now: number;
  /** Of this month; null if the store cannot tell. */
  usage: KeyUsage | null;
  month: string;
};

/** The object of a key for clients. Times are in seconds, and null if there is none. */
export function presentKey(key: Key, { now, usage, month }: KeyFigures) {
  const { expiresAt, endsAt, endpoints, models, allowedIps, limits } = key;
  const at = new Date(now);
  const isGraceOver = isOver(endsAt, at); // it ends when its account changes
  const endedAt = isGraceOver ? endsAt : key.endedAt;
  return {
    id: key.id,
    object: 'key' as const,
    name: key.name,
    key: maskKey(key.display),
    default: isDefaultKey(key),
    state: stateAt(key, at),
    created_at: secondsOf(key.createdAt),
    expires_at: timeOf(expiresAt),
    valid_until: timeOf(endsAt && !isGraceOver ? validUntil(key) : undefined),
    ended_at: timeOf(endedAt),
    last_used_at: timeOf(key.lastUsedAt),
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
    .map((key) => presentPlainly(key, account.plan));
}

/** All keys for operators: developer keys, then further keys. A default key that was rotated with a grace is among the latter. */
export function presentAllKeys(account: Account, now: Date): object[] {
  const keys = keysOf(account);
  const isDeveloper = ({ isDefault, rotatedAt }: Key) => isDefault && rotatedAt === undefined;
  const present = (key: Key) => {
    const endedAt = key.endedAt ?? (key.endsAt && validUntil(key));
    const plain = presentPlainly({ ...key, state: stateAt(key, now), endedAt }, account.plan);
    return isDeveloper(key) ? plain : { ...plain, name: key.name };
  };
  return [...keys.filter(isDeveloper), ...keys.filter((key) => !isDeveloper(key))].map(present);
}

/** `plan` is that of the account now. */
function presentPlainly(key: Key, plan: string) {
  const { id, display, state, createdAt, endedAt, lastUsedAt } = key;
  return {
    ...{ id, key: maskKey(display), plan: key.plan ?? plan, state, createdAt },
    ...(endedAt !== undefined && { endedAt }),
    ...(lastUsedAt !== undefined && { lastUsedAt }),
  };
}

/** A rotated key is valid until its end. */
function stateAt({ state, expiresAt }: Key, now: Date): Key['state'] {
  return state === 'active' && isOver(expiresAt, now) ? 'expired' : state;
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
