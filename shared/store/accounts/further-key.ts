import { z } from 'zod';
import { storedDate as date } from '../../stored-date.ts';

const limit = z.int().positive();

export const keyLimitsSchema = z.object({
  requestsPerMinute: limit.optional(),
  tokensPerMinute: limit.optional(),
  tokensPerMonth: limit.optional(),
  monthLimitedSince: z.string().optional(),
});

export const keyFilesSchema = z.enum(['none', 'own', 'read', 'all']);

const shownSchema = z.object({
  id: z.string(),
  display: z.string(),
  name: z.string(),
  createdAt: date,
  expiresAt: date.optional(),
  endpoints: z.array(z.string()).optional(),
  models: z.array(z.string()).optional(),
  allowedIps: z.array(z.string()).optional(),
  limits: keyLimitsSchema.optional(),
  files: keyFilesSchema.optional(),
  replaced: z.array(z.string()).optional(),
  lastUsedAt: date.optional(),
});

export const furtherKeySchema = shownSchema.extend({
  hash: z.string(),
  endsAt: date.optional(),
});

export const endedFurtherKeySchema = shownSchema.extend({
  state: z.enum(['rotated', 'revoked', 'expired']),
  endedAt: date,
});

/**
 * What a further key allows at most, in addition to the limits of its account. An omitted limit means none. `monthLimitedSince`: the month
 * (`YYYY-MM`, UTC) since when it has always had a limit of the month.
 */
export type KeyLimits = z.infer<typeof keyLimitsSchema>;

/**
 * A key beside the default key of an account (contract.md#i1-further-keys). Without `endpoints` (paths), `models` or `allowedIps`
 * (addresses and CIDR ranges) it may use all of them. It is rejected from `expiresAt` on. `endsAt` is set once it was rotated: it is valid
 * until then. A default key that was rotated like this becomes a further key, and is also in the list of ended keys. `replaced` are the ids
 * of the keys that it has replaced by rotations, latest first. `lastUsedAt` is coarse, and is not part of a change.
 */
export type FurtherKey = z.infer<typeof furtherKeySchema>;

/** `expired`: its hash was dropped, because the account has many expired keys. */
export type EndedFurtherKey = z.infer<typeof endedFurtherKeySchema>;

/** The fields of a further key that its owner chooses. */
export type KeyFields = Pick<
  FurtherKey,
  'name' | 'expiresAt' | 'endpoints' | 'models' | 'allowedIps' | 'limits' | 'files'
>;

/**
 * Which files and batches of its account a key may use (contract.md#ho7-files-of-a-key). `none`: none. `own`: those that it has made.
 * `read`: it reads all, and changes those that it has made. `all`: all.
 */
export type KeyFiles = z.infer<typeof keyFilesSchema>;

/** Returns which files a key may use: what it says, otherwise `own` for a key that is limited to endpoints or models. */
export function filesOf({ files, endpoints, models }: Pick<KeyFields, 'files' | 'endpoints' | 'models'>): KeyFiles {
  return files ?? (endpoints === undefined && models === undefined ? 'all' : 'own');
}

type Ends<Time> = { expiresAt?: Time | undefined; endsAt?: Time | undefined };

/** Returns until when a key is valid; undefined if it has no end yet. */
export function validUntil<Time extends Date | number>({ expiresAt, endsAt }: Ends<Time>): Time | undefined {
  if (expiresAt === undefined || endsAt === undefined) return expiresAt ?? endsAt;
  return expiresAt < endsAt ? expiresAt : endsAt;
}
