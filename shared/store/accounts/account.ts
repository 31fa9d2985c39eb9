import { z } from 'zod';
import { storedDate as date } from '../../stored-date.ts';

export const activeKeySchema = z.object({
  id: z.string(),
  hash: z.string(),
  display: z.string(),
  plan: z.string(),
  createdAt: date,
});

const endedKeySchema = activeKeySchema.omit({ hash: true }).extend({
  state: z.enum(['rotated', 'revoked']),
  endedAt: date,
  lastUsedAt: date.optional(),
});

const topUp = z.object({ id: z.string(), tokens: z.int().positive() });

const step = z.object({ from: z.string(), to: z.string() });

/** What was done, and `by` whom: an account, or a device of its own accord. */
const changeSchema = z.object({
  at: date,
  by: z.string(),
  keyMinted: z.string().optional(),
  keyRotated: step.optional(),
  keyRevoked: z.string().optional(),
  plan: step.optional(),
  suspended: z.boolean().optional(),
  overageEnabled: z.boolean().optional(),
  topUp: topUp.optional(),
});

export const monthTopUpSchema = z.object({ month: z.string(), tokens: z.int().positive() });

export const accountSchema = z.object({
  id: z.string(),
  plan: z.string(),
  suspended: z.boolean().default(false),
  overageEnabled: z.boolean().default(false),
  topUp: monthTopUpSchema.optional(),
  topUpsMade: z.array(topUp).default([]),
  version: z.int(),
  createdAt: date,
  key: activeKeySchema.optional(),
  endedKeys: z.array(endedKeySchema).default([]),
  changes: z.array(changeSchema).default([]),
  guest: z.object({ secret: z.string(), pepper: z.string() }).optional(),
  lastUse: z.object({ keyId: z.string(), at: date }).optional(),
});

/**
 * Everything that is kept of one account or device; one document, so that each change of it is one atomic update. `id` is
 * `user:<sub>` or `device:<hash>`. `version` counts the changes: each adds 1 and comes first in `changes`. `endedKeys` (the
 * last 100) and `changes` (the last 200) have the newest first. Changes of settings have audit records as well. `topUp` is
 * what was added to one month's allowance, the last one that was topped up; `topUpsMade` are the last 500 in whichever month,
 * so that each counts once. `guest` names, by fingerprint, the secrets that a device's key was made with. `lastUse` is
 * coarse, and no change: it touches no version.
 */
export type Account = Omit<z.infer<typeof accountSchema>, 'changes'> & { changes: Change[] };

/** `display` is the first ten characters of the key, `hash` what is compared; `plan` the one it was minted under. */
export type ActiveKey = z.infer<typeof activeKeySchema>;

/** `plan` is the one at its end. */
export type EndedKey = z.infer<typeof endedKeySchema>;

/**
 * `keyMinted`, `keyRevoked` and the ends of `keyRotated` are key ids; `plan` names both plans, `topUp` has the operator's id.
 * `origin` is there while the change is made. The account's document does not keep it; its audit record does.
 */
export type Change = z.infer<typeof changeSchema> & { origin?: Origin };

/** The client's address that a change came from, and the reason that was given for it. */
export type Origin = { address: string; reason: string | null };

/** What a change of an account's settings says: the parts of it that differ. */
export const settingsChangeSchema = changeSchema.pick({
  plan: true,
  overageEnabled: true,
  topUp: true,
  suspended: true,
});

/** What was added to the allowance of `month` (`YYYY-MM`, UTC), all its top-ups together. */
export type MonthTopUp = z.infer<typeof monthTopUpSchema>;

/** The fingerprints of the secrets that a guest key is made with: the one it is derived from, and its pepper. */
export type GuestSecrets = NonNullable<Account['guest']>;

/** A key that is about to be minted; the full key is never given to the store. */
export type NewKey = Omit<ActiveKey, 'plan'>;

/** The calendar month of a time, in UTC: `YYYY-MM`. */
export function monthOf(at: Date): string {
  return at.toISOString().slice(0, 7);
}

/** When the store last saw its key used: a mint counts. Uses of the last half minute may be missing. */
export function lastSeen({ createdAt, lastUse }: Pick<Account, 'createdAt' | 'lastUse'>): Date {
  return lastUse !== undefined && lastUse.at > createdAt ? lastUse.at : createdAt;
}
