import { z } from 'zod';
import { ApiError } from '../../errors.ts';
import { storedDate as date } from '../../json/stored-values.ts';

const limit = z.int().positive();

const keyLimitsSchema = z.object({
  requestsPerMinute: limit.optional(),
  tokensPerMinute: limit.optional(),
  tokensPerMonth: limit.optional(),
  monthLimitedSince: z.string().optional(),
});

export const keyFilesSchema = z.enum(['none', 'own', 'read', 'all']);

/** What a key is for that a program of the service asks for itself. */
export const keyPurposeSchema = z.enum(['console']);

export const keySchema = z.object({
  id: z.string(),
  hash: z.string().optional(),
  display: z.string(),
  name: z.string(),
  isDefault: z.boolean(),
  purpose: keyPurposeSchema.optional(),
  state: z.enum(['active', 'rotated', 'revoked', 'expired']),
  createdAt: date,
  expiresAt: date.optional(),
  rotatedAt: date.optional(),
  endsAt: date.optional(),
  endedAt: date.optional(),
  plan: z.string().optional(),
  endpoints: z.array(z.string()).optional(),
  models: z.array(z.string()).optional(),
  allowedIps: z.array(z.string()).optional(),
  limits: keyLimitsSchema.optional(),
  files: keyFilesSchema.optional(),
  replaced: z.array(z.string()).optional(),
  lastUsedAt: date.optional(),
});

/**
 * What a key allows at most, in addition to the limits of its account. An omitted limit means none. `monthLimitedSince`: the month
 * (`YYYY-MM`, UTC) since when it has always had a limit of the month.
 */
export type KeyLimits = z.infer<typeof keyLimitsSchema>;

/**
 * A key of an account (contract.md#t1-key-states, contract.md#i1-further-keys). `hash` is compared to find it; a key that has ended has
 * none. `display` is its first ten characters. `isDefault` marks the keys of the routes of developer keys: at most one of them is active,
 * which is the account's default key, and has no settings. `purpose`: the key of the console
 * (contract.md#i6-key-of-the-console). Without `endpoints` (paths), `models` or `allowedIps` (addresses and CIDR
 * ranges) a key may use all of them. It is rejected from `expiresAt` on; its state stays `active`, because it can be given a later end.
 * `rotatedAt` and `endsAt` are set if it was rotated with a grace: it is valid until `endsAt`. `expired`: its hash was dropped, because the
 * account has many expired keys. `plan` is the account's plan when a default key ended. `replaced` are the ids of the keys that it has
 * replaced by rotations, latest first. `lastUsedAt` is coarse, and is not part of a change.
 */
export type Key = z.infer<typeof keySchema>;

/** A key that can be used, as far as its account knows. */
export type LiveKey = Key & { hash: string };

/** A key that is about to be created. The store never receives the full key. */
export type NewKey = Pick<LiveKey, 'id' | 'hash' | 'display' | 'createdAt'>;

/** The fields of a further key that its owner chooses. */
export type KeyFields = Pick<Key, 'name' | 'expiresAt' | 'endpoints' | 'models' | 'allowedIps' | 'limits' | 'files'>;

/**
 * Which files and batches of its account a key may use (contract.md#ho7-files-of-a-key). `none`: none. `own`: those that it has made.
 * `read`: it reads all, and changes those that it has made. `all`: all.
 */
type KeyFiles = z.infer<typeof keyFilesSchema>;

/** Returns which files a key may use: what it says, otherwise `own` for a key that is limited to endpoints or models. */
export function filesOf({ files, endpoints, models }: Pick<KeyFields, 'files' | 'endpoints' | 'models'>): KeyFiles {
  return files ?? (endpoints === undefined && models === undefined ? 'all' : 'own');
}

export function isLive(key: Key): key is LiveKey {
  return key.hash !== undefined;
}

/** Whether this is the default key of its account. */
export function isDefaultKey({ isDefault, state }: Pick<Key, 'isDefault' | 'state'>): boolean {
  return isDefault && state === 'active';
}

export function defaultKeyOf(account: { keys: readonly Key[] } | undefined): LiveKey | undefined {
  return account?.keys.filter(isLive).find(isDefaultKey);
}

type Ends<Time> = { expiresAt?: Time | undefined; endsAt?: Time | undefined };

/** Returns until when a key is valid; undefined if it has no end yet. */
export function validUntil<Time extends Date | number>({ expiresAt, endsAt }: Ends<Time>): Time | undefined {
  if (expiresAt === undefined || endsAt === undefined) return expiresAt ?? endsAt;
  return expiresAt < endsAt ? expiresAt : endsAt;
}

/** Returns when one of these keys was last used, as far as it is recorded. */
export function lastUseOf(keys: readonly Pick<Key, 'lastUsedAt'>[]): Date | undefined {
  const times = keys.flatMap(({ lastUsedAt }) => lastUsedAt?.getTime() ?? []);
  return times.length === 0 ? undefined : new Date(Math.max(...times));
}

const narrowingSchema = keySchema.pick({
  endpoints: true,
  models: true,
  allowedIps: true,
  limits: true,
  files: true,
  replaced: true,
});
export const keyScopeSchema = narrowingSchema.extend({ expiresAt: z.int().optional(), endsAt: z.int().optional() });

/** What a key may do. Times are milliseconds of Redis's clock. `replaced` is omitted if the key may use all files. */
export type KeyScope = z.infer<typeof keyScopeSchema>;

export function scopeOf(key: Key): KeyScope {
  const { expiresAt, endsAt } = key;
  const { replaced, ...narrowing } = narrowingSchema.parse(key);
  return {
    ...narrowing,
    ...(expiresAt && { expiresAt: expiresAt.getTime() }),
    ...(endsAt && { endsAt: endsAt.getTime() }),
    ...(replaced && filesOf(key) !== 'all' && { replaced }),
  };
}

/** Whether the key may use this model, by its own name or by the alias that the client sent. */
export function mayUseModel(scope: Pick<Scopes, 'models'> | undefined, ...names: (string | undefined)[]): boolean {
  return scope?.models === undefined || names.some((name) => name !== undefined && scope.models?.includes(name));
}

type Scopes = { [Name in 'endpoints' | 'models']?: KeyScope[Name] | undefined };
type CallTarget = { endpoint: string; model?: string; requestedModel?: string | undefined };

/**
 * Returns `FORBIDDEN` for a request that the key may not make, which names what is outside of it. Without `model` only the endpoint is
 * checked.
 */
export function refuseOutsideKey(
  scope: Scopes | undefined,
  { endpoint, model, requestedModel }: CallTarget,
): ApiError | undefined {
  if (scope?.endpoints !== undefined && !scope.endpoints.includes(endpoint)) {
    return new ApiError('FORBIDDEN', `This API key may not use the endpoint ${endpoint}.`);
  }
  if (model === undefined || mayUseModel(scope, model, requestedModel)) return undefined;
  return new ApiError('FORBIDDEN', `This API key may not use the model "${requestedModel ?? model}".`);
}
