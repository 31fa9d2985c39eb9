import { scopeOf } from '../key-scope.ts';
import { accountSchema, activeKeySchema } from './accounts/account.ts';
import type { KeyOwner } from './store.ts';

const ownerSchema = accountSchema
  .pick({ id: true, plan: true, suspended: true, version: true, overageEnabled: true, topUp: true, guest: true })
  .extend({
    key: activeKeySchema.pick({ id: true, hash: true }).optional(),
    furtherKeys: accountSchema.shape.furtherKeys,
  });

/**
 * Returns the owner of the key with one of these hashes, from the fields of its account that this needs; undefined if the account does not
 * have that key.
 */
export function readKeyOwner(found: unknown, hashes: readonly string[]): KeyOwner | undefined {
  const { id: account, key, furtherKeys, guest, topUp, ...status } = ownerSchema.parse(found);
  const owner = { account, ...status, ...(topUp && { topUp }), ...(guest && { guest }) };
  if (key !== undefined && hashes.includes(key.hash)) return { ...owner, keyId: key.id };
  const further = furtherKeys.find(({ hash }) => hashes.includes(hash));
  return further && { ...owner, keyId: further.id, furtherKey: scopeOf(further) };
}
