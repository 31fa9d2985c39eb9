import { z } from 'zod';
import { guestPlan } from './plan-file/plan-file-schema.ts';
import { type Account, monthTopUpSchema } from './store/accounts/account.ts';
import { keyScopeSchema } from './store/accounts/key.ts';

export const callerSchema = z.object({
  account: z.string(),
  plan: z.string(),
  suspended: z.boolean(),
  version: z.int(),
  overageEnabled: z.boolean(),
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

type AccountStatus = Pick<Account, 'plan' | 'suspended' | 'version' | 'overageEnabled' | 'topUp'>;

/** Returns the fields of a caller that come from the current account. */
export function accountStatusOf(account: AccountStatus): Omit<Caller, 'account' | 'keyId' | 'keyScope'> {
  const { plan, suspended, version, overageEnabled, topUp } = account;
  return { plan, suspended, version, overageEnabled, ...(topUp && { topUp }) };
}

/** Returns an account as a caller. An account that was never used has the default plan and version 0. */
export function callerOf(account: string, known: Account | undefined, defaultPlan: string): Caller {
  const neverUsed = { plan: defaultPlan, suspended: false, version: 0, overageEnabled: false, topUp: undefined };
  return { account, ...accountStatusOf(known ?? neverUsed) };
}
