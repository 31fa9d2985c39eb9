import { z } from 'zod';
import { storedDate as date } from '../../json/stored-values.ts';
import { guestPlan } from '../../plan-file/plan-file-schema.ts';
import { keySchema, keyScopeSchema } from './key.ts';

const topUp = z.object({ id: z.string(), tokens: z.int().positive() });

const step = z.object({ from: z.string(), to: z.string() });

const redeemedCode = z.object({ id: z.string(), note: z.string().nullable() });

/** A change of an account. `by` is the account that made it, or the device itself. */
const changeSchema = z.object({
  at: date,
  by: z.string(),
  keyMinted: z.string().optional(),
  keyRotated: step.optional(),
  keyRevoked: z.string().optional(),
  keyChanged: z.string().optional(),
  plan: step.optional(),
  suspended: z.boolean().optional(),
  overageEnabled: z.boolean().optional(),
  overageTokensMax: z.int().positive().nullable().optional(),
  topUp: topUp.optional(),
  codeRedeemed: redeemedCode.optional(),
  batchCancelled: z.string().optional(),
  requestEnded: z.string().optional(),
  backendPaused: z.object({ backend: z.string(), minutes: z.int().positive() }).optional(),
  backendResumed: z.string().optional(),
  accountRemoved: z.literal(true).optional(),
});

const monthTopUpSchema = z.object({ month: z.string(), tokens: z.int().positive() });

export const accountSchema = z.object({
  id: z.string(),
  plan: z.string(),
  suspended: z.boolean(),
  overageEnabled: z.boolean(),
  overageTokensMax: z.int().positive().optional(),
  topUp: monthTopUpSchema.optional(),
  topUpsMade: z.array(topUp),
  version: z.int(),
  createdAt: date,
  keys: z.array(keySchema),
  keysCreated: z.object({ day: z.string(), count: z.int().positive() }).optional(),
  consoleKeysCreated: z.object({ day: z.string(), count: z.int().positive() }).optional(),
  changes: z.array(changeSchema),
  guest: z.object({ secret: z.string(), pepper: z.string() }).optional(),
  removal: z.object({ at: date, isDone: z.boolean(), isUsed: z.boolean().optional() }).optional(),
});

/**
 * The data kept about one account or device, in one document, so that each change of it is one atomic update (contract.md#r2-accounts).
 * `id` is `user:<sub>` or `device:<hash>`. `version` counts the changes: each change adds 1 and comes first in `changes` (the last 200).
 * `keys` are the live ones in the order of their creation, a rotated one last, then those that have ended, latest last: the last 100
 * default keys, the last 20 keys of the console and the last 100 others. Changes of settings also have audit records. `overageTokensMax` is
 * the account's own bound of the overage of a month. `topUp` is the amount added to one month's allowance, for the month that was topped up
 * last. `topUpsMade` are the last 500 top-ups of all months, so that each counts once. `keysCreated` counts the keys that the account has
 * created on its latest such day (`YYYY-MM-DD`, UTC), and `consoleKeysCreated` those of the console. `guest` names, by fingerprint, the
 * secrets that a device's key was made with. `removal` is set once an operator removes the account. `isDone`: nothing is left; the next use
 * drops it. `isUsed`: used since, while what is older is still being removed.
 */
export type Account = Omit<z.infer<typeof accountSchema>, 'changes'> & { changes: Change[] };

/**
 * `keyMinted`, `keyRevoked`, `keyChanged` and both values of `keyRotated` are key ids. `plan` names both plans. `topUp` has its id;
 * `codeRedeemed` is beside it if a code was redeemed. `batchCancelled` and `requestEnded` are ids of what an operator has cancelled or
 * ended. `backendPaused` and `backendResumed` are in the account of the operator who did that. `origin` exists while the change is made:
 * the account's document does not keep it, but its audit record does.
 */
export type Change = z.infer<typeof changeSchema> & { origin?: Origin };

/** The client address that a change came from, and its reason. */
export type Origin = { address: string; reason: string | null };

/** What an audit record says of a change of an account. */
export const auditedChangeSchema = changeSchema.omit({ at: true, by: true });

/** The sum of all top-ups of the allowance of `month` (`YYYY-MM`, UTC). */
export type MonthTopUp = z.infer<typeof monthTopUpSchema>;

/** The fingerprints of the secrets of a guest key: the secret that it is derived from, and its pepper. */
export type GuestSecrets = NonNullable<Account['guest']>;

/** Whether an account is being removed, or was, and was not used since. */
export function isRemoved({ removal }: Pick<Account, 'removal'>): boolean {
  return removal !== undefined && !removal.isUsed;
}

/** Whether an account was removed completely and not used since. One that is suspended stays known, so that it can be resumed. */
export function isGone({ removal, suspended }: Pick<Account, 'removal' | 'suspended'>): boolean {
  return removal?.isDone === true && !suspended;
}

/** Returns the calendar month of a time, in UTC: `YYYY-MM`. */
export function monthOf(at: Date): string {
  return at.toISOString().slice(0, 7);
}

/** Returns when the account was last used, by one of its keys. A mint counts as a use. Uses of the last half minute may be missing. */
export function lastSeen({ createdAt, usedAt }: { createdAt: Date; usedAt?: Date | undefined }): Date {
  return usedAt !== undefined && usedAt > createdAt ? usedAt : createdAt;
}

export const callerSchema = z.object({
  account: z.string(),
  plan: z.string(),
  suspended: z.boolean(),
  version: z.int(),
  overageEnabled: z.boolean(),
  overageTokensMax: z.int().positive().optional(),
  topUp: monthTopUpSchema.optional(),
  keyId: z.string().optional(),
  keyScope: keyScopeSchema.optional(),
});

/**
 * The caller: the account or device behind a credential, at this version, with its plan at that time. `keyId` is set if a key was used.
 * `topUp` is the amount added to a month's allowance; that month may be over. `keyScope` is set if that key is not the account's default
 * key.
 */
export type Caller = z.infer<typeof callerSchema>;

/** The account whose share of this process' memory a request takes: all devices together are one. */
export function holderOf({ account, plan }: Pick<Caller, 'account' | 'plan'>): string {
  return plan === guestPlan ? guestPlan : account;
}

type AccountStatus = Pick<Account, 'plan' | 'suspended' | 'version' | 'overageEnabled' | 'overageTokensMax' | 'topUp'>;

/** Returns the fields of a caller that come from the current account. */
export function accountStatusOf(account: AccountStatus): Omit<Caller, 'account' | 'keyId' | 'keyScope'> {
  const { plan, suspended, version, overageEnabled, overageTokensMax, topUp } = account;
  const own = { ...(overageTokensMax !== undefined && { overageTokensMax }), ...(topUp && { topUp }) };
  return { plan, suspended, version, overageEnabled, ...own };
}

/** Returns an account as a caller. An account that was never used has the default plan and version 0. */
export function callerOf(account: string, known: Account | undefined, defaultPlan: string): Caller {
  const neverUsed = { plan: defaultPlan, suspended: false, version: 0, overageEnabled: false };
  return { account, ...accountStatusOf(known ?? neverUsed) };
}
