import { accountSchema, activeKeySchema } from './accounts/account.ts';
import type { KeyOwner } from './store.ts';

/** The owner of an active key, from the fields of the account that this needs. */
export const keyOwnerSchema = accountSchema
  .pick({ id: true, plan: true, suspended: true, version: true, overageEnabled: true, topUp: true, guest: true })
  .extend({ key: activeKeySchema.pick({ id: true }) })
  .transform(({ id: account, key, guest, topUp, ...status }): KeyOwner => {
    return { account, keyId: key.id, ...status, ...(topUp && { topUp }), ...(guest && { guest }) };
  });
