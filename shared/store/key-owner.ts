import { scopeOf } from '../key-scope.ts';
import { accountSchema } from './accounts/account.ts';
import { isDefaultKey } from './accounts/key.ts';
import type { KeyOwner } from './store.ts';

const ownerSchema = accountSchema.pick({
  ...{ id: true, plan: true, suspended: true, version: true, overageEnabled: true, topUp: true, guest: true },
  keys: true,
});

/**
 * Returns the owner of the key with one of these hashes, from the fields of its account that this needs; undefined if the account does not
 * have that key.
 */
export function readKeyOwner(found: unknown, hashes: readonly string[]): KeyOwner | undefined {
  const { id: account, keys, guest, topUp, ...status } = ownerSchema.parse(found);
  const key = keys.find(({ hash }) => hash !== undefined && hashes.includes(hash));
  if (key === undefined) return undefined;
  const keyScope = isDefaultKey(key) ? {} : { keyScope: scopeOf(key) };
  return { account, keyId: key.id, ...status, ...(topUp && { topUp }), ...(guest && { guest }), ...keyScope };
}
