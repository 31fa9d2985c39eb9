import { type FurtherKey, filesOf, type KeyLimits, validUntil } from '../../../shared/store/accounts/further-key.ts';
import type { KeyUsage } from '../../../shared/store/usage/usage-by-key.ts';
import { secondsOf } from '../../api/present-file.ts';
import { maskKey } from '../../callers/api-key.ts';
import { defaultKeyName, type KnownKey } from '../../callers/further-key-changes.ts';

type Shown = {
  /** Redis's time, in milliseconds. */
  now: number;
  /** The use of the default key is stored beside it. */
  lastUsedAt: Date | undefined;
  /** Of this month; null if the store cannot tell. */
  usage: KeyUsage | null;
  month: string;
};

/** The object of a key for clients. Times are in seconds, and null if there is none. */
export function presentKey({ kind, key }: KnownKey, { now, lastUsedAt, usage, month }: Shown) {
  const scope = kind === 'default' ? noScope : key;
  const { expiresAt, endpoints, models, allowedIps, limits } = scope;
  const endedAt = kind === 'further' ? endOfGrace(key, now) : kind === 'ended' ? key.endedAt : undefined;
  const graceEnd =
    kind === 'further' && key.endsAt !== undefined && endedAt === undefined ? validUntil(key) : undefined;
  return {
    id: key.id,
    object: 'key' as const,
    name: kind === 'default' ? defaultKeyName : key.name,
    key: maskKey(key.display),
    default: kind === 'default',
    state: stateOfKey({ kind, key } as KnownKey, now), // the pair is as it was given
    created_at: secondsOf(key.createdAt),
    expires_at: timeOf(expiresAt),
    valid_until: timeOf(graceEnd),
    ended_at: timeOf(endedAt),
    last_used_at: timeOf(lastUsedAt ?? (kind === 'default' ? undefined : key.lastUsedAt)),
    endpoints: endpoints ?? null,
    models: models ?? null,
    allowed_ips: allowedIps ?? null,
    limits: limits === undefined ? null : presentLimits(limits),
    files: filesOf(scope),
    usage: usage && { month, requests: usage.requests, tokens: usage.chargedTokens },
  };
}

const noScope: Partial<Pick<FurtherKey, 'expiresAt' | 'endpoints' | 'models' | 'allowedIps' | 'limits' | 'files'>> = {};

/** When a rotated key ended, if its grace is over: it stays a further key until its account changes. */
function endOfGrace({ endsAt }: FurtherKey, now: number): Date | undefined {
  return endsAt !== undefined && endsAt.getTime() <= now ? endsAt : undefined;
}

/** A rotated key is valid until its end. `now`: Redis's time, in milliseconds. */
export function stateOfKey({ kind, key }: KnownKey, now: number) {
  if (kind === 'default') return 'active';
  if (kind === 'ended') return key.state;
  if (key.endsAt !== undefined) return 'rotated';
  return key.expiresAt !== undefined && key.expiresAt.getTime() <= now ? 'expired' : 'active';
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
