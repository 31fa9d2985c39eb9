import { accountSchema, activeKeySchema } from './accounts/account.ts';
import type { KeyOwner } from './store.ts';

/** The owner of an active key, from as much of the account as that takes. */
export const keyOwnerSchema = accountSchema
  .pick({ id: true, plan: true, suspended: true, version: true, overageEnabled: true, topUp: true, guest: true })
  .extend({ key: activeKeySchema.pick({ id: true }) })
  .transform(({ id: account, key, guest, topUp, ...status }): KeyOwner => {
    return { account, keyId: key.id, ...status, ...(topUp && { topUp }), ...(guest && { guest }) };
  });
