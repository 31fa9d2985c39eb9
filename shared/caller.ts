import { z } from 'zod';
import { type Account, monthTopUpSchema } from './store/accounts/account.ts';

export const callerSchema = z.object({
  account: z.string(),
  plan: z.string(),
  suspended: z.boolean(),
  version: z.int(),
  overageEnabled: z.boolean().default(false),
  topUp: monthTopUpSchema.optional(),
  keyId: z.string().optional(),
});

/**
 * Who calls: the account or device behind a credential as it was at this version, with its plan then. `keyId` where a key
 * was used. `topUp` is what was added to a month's allowance, perhaps one that is over.
 */
export type Caller = z.infer<typeof callerSchema>;

type AccountStatus = Pick<Account, 'plan' | 'suspended' | 'version' | 'overageEnabled' | 'topUp'>;

/** What a caller has of its account as the account stands. */
export function accountStatusOf(account: AccountStatus): Omit<Caller, 'account' | 'keyId'> {
  const { plan, suspended, version, overageEnabled, topUp } = account;
  return { plan, suspended, version, overageEnabled, ...(topUp && { topUp }) };
}

/** An account as a caller; one that was never used stands on the default plan, at version 0. */
export function callerOf(account: string, known: Account | undefined, defaultPlan: string): Caller {
  const neverUsed = { plan: defaultPlan, suspended: false, version: 0, overageEnabled: false, topUp: undefined };
  return { account, ...accountStatusOf(known ?? neverUsed) };
}
