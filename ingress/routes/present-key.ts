import { z } from 'zod';
import type { Account } from '../../shared/store/records/account.ts';
import {
  filesOf,
  isDefaultKey,
  type KeyLimits,
  keyFilesSchema,
  keyPurposeSchema,
  type Key as StoredKey,
  validUntil,
} from '../../shared/store/records/key.ts';
import { usageMonthSchema } from '../../shared/store/usage/usage-record.ts';
import type { KeyUsage } from '../../shared/store/usage/usage-store.ts';
import { listOf } from '../api/lists.ts';
import { count, seconds, secondsOf, secondsOrNull } from '../api/response-fields.ts';
import { named } from '../api/route.ts';
import { maskKey } from '../authentication/api-key.ts';
import { isOver, keysOf } from '../authentication/change-keys.ts';

type KeyFigures = {
  /** Redis's time, in milliseconds. */
  now: number;
  /** Of this month; null if the store is unavailable. */
  usage: KeyUsage | null;
  month: string;
};

/** A key as operators see it, without its settings and its usage. Times are in seconds, and null if there is none. */
export function presentShownKey(key: StoredKey, at: Date): ShownKey {
  const { state, expiresAt, endsAt } = key;
  const isGraceOver = isOver(endsAt, at); // it ends when its account changes
  return {
    id: key.id,
    name: key.name,
    key: maskKey(key.display),
    default: isDefaultKey(key),
    purpose: key.purpose ?? null,
    state: state === 'active' && isOver(expiresAt, at) ? 'expired' : state,
    created_at: secondsOf(key.createdAt),
    expires_at: secondsOrNull(expiresAt),
    valid_until: secondsOrNull(endsAt && !isGraceOver ? validUntil(key) : undefined),
    ended_at: secondsOrNull(isGraceOver ? endsAt : key.endedAt),
    last_used_at: secondsOrNull(key.lastUsedAt),
  };
}

/** A key as its account sees it. */
export function presentKey(key: StoredKey, { now, usage, month }: KeyFigures) {
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
export function presentDeveloperKeys(account: Account) {
  const endOf = ({ endedAt }: StoredKey) => endedAt?.getTime() ?? Number.MAX_VALUE;
  return keysOf(account)
    .filter(({ isDefault }) => isDefault)
    .map((key) => (key.rotatedAt ? { ...key, state: 'rotated' as const, endedAt: key.rotatedAt } : key))
    .toSorted((one, other) => endOf(other) - endOf(one))
    .slice(0, listedKeysMax)
    .map(({ id, display, plan = account.plan, state, createdAt, endedAt, lastUsedAt }) => ({
      id,
      key: maskKey(display),
      plan,
      state: state as Exclude<typeof state, 'expired'>, // a default key has no end
      createdAt: createdAt.toISOString(),
      ...(endedAt !== undefined && { endedAt: endedAt.toISOString() }),
      ...(lastUsedAt !== undefined && { lastUsedAt: lastUsedAt.toISOString() }),
    }));
}

function presentLimits({ requestsPerMinute, tokensPerMinute, tokensPerMonth }: KeyLimits) {
  return {
    requests_per_minute: requestsPerMinute ?? null,
    tokens_per_minute: tokensPerMinute ?? null,
    tokens_per_month: tokensPerMonth ?? null,
  };
}

const names = z.array(z.string()).nullable();
const limit = z.int().positive().nullable();

/** A key as operators see it. Its account also sees its settings and its usage. */
export const shownKey = z.strictObject({
  id: z.string(),
  name: z.string().meta({ description: '`default` for the key of `POST /v1/keys/developer`.' }),
  key: z.string().meta({ description: 'Masked.' }),
  default: z.boolean(),
  purpose: keyPurposeSchema.nullable().meta({ description: '`console`: the key of the console; null: any other.' }),
  state: z.enum(['active', 'rotated', 'revoked', 'expired']).meta({
    description: 'A rotated key is valid until `valid_until`.',
  }),
  created_at: count.meta({ description: 'Seconds since 1970, UTC, like all times of a key.' }),
  expires_at: seconds.nullable(),
  valid_until: seconds.nullable().meta({ description: 'The end of the grace of a rotated key, while it lasts.' }),
  ended_at: seconds.nullable(),
  last_used_at: seconds.nullable().meta({ description: 'To the minute; uses of the last half minute may be missing.' }),
});
export const keySchema = named(
  'Key',
  z.strictObject({
    object: z.literal('key'),
    ...shownKey.shape,
    endpoints: names,
    models: names,
    allowed_ips: names,
    limits: z
      .strictObject({ requests_per_minute: limit, tokens_per_minute: limit, tokens_per_month: limit })
      .nullable(),
    files: keyFilesSchema.meta({ description: 'The files and batches that it may use.' }),
    usage: z
      .strictObject({ month: usageMonthSchema, requests: count, tokens: count })
      .nullable()
      .meta({ description: 'Of this month (UTC), as far as it is stored; null if the store is unavailable.' }),
  }),
);
export const keyListSchema = named('KeyList', listOf(keySchema));
const fullKey = z.string().meta({ description: 'The key in full, only this once.' });
export const createdKeySchema = named('CreatedKey', keySchema.extend({ key: fullKey }));
export const successorKeySchema = named('SuccessorKey', createdKeySchema.extend({ replaces: keySchema }));
export const ownKeySchema = named(
  'OwnKey',
  keySchema.extend({
    plan: z.string(),
    day: z.strictObject({ requests: count, limit: count.nullable() }).meta({
      description: 'Requests of the account today (UTC), and how many its plan allows a day; null: no limit.',
    }),
  }),
);

export type Key = z.infer<typeof keySchema>;
export type CreatedKey = z.infer<typeof createdKeySchema>;
export type OwnKey = z.infer<typeof ownKeySchema>;
export type SuccessorKey = z.infer<typeof successorKeySchema>;
export type ShownKey = z.infer<typeof shownKey>;
