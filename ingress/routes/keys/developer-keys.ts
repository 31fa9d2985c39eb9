import { z } from 'zod';
import type { ChangeAccount } from '../../../shared/account-changes/change-account.ts';
import { defaultKeyOf } from '../../../shared/store/accounts/key.ts';
import type { Store } from '../../../shared/store/store.ts';
import { parseBody } from '../../api/json-body.ts';
import { displayPart, isMaskedKey, isWellFormedKey, maskKey, newKey } from '../../callers/api-key.ts';
import { invalidKey, keyCredential } from '../../callers/authorization.ts';
import { mintKey, type NamedKey, revokeKey, rotateKey } from '../../callers/change-keys.ts';
import { type Stage, stateOf, timeOf } from '../../request-state.ts';
import { presentDeveloperKeys } from './present-key.ts';

type KeyChanges = { changeAccount: ChangeAccount; peppers: readonly string[] };

export const emptyObject = z.strictObject({});
export const namedKeyBody = z.strictObject({
  key: z.string().meta({ description: 'The active key, in full or masked.' }),
});

/**
 * `POST /v1/keys/developer`: mints the key of the account, and shows it in full only this once. If the account has a key, returns it
 * masked. 200 in both cases (contract.md#c4-repeated-mint, contract.md#t2-key-routes).
 */
export function mintDeveloperKey({ changeAccount, peppers }: KeyChanges): Stage {
  return async function mintDeveloperKey(ctx) {
    parseBody(emptyObject, stateOf(ctx, 'body'));
    const { account: id, version } = stateOf(ctx, 'caller');
    const { key, stored } = newKey(peppers, timeOf(ctx));
    const decide = mintKey({ account: id, plan: stateOf(ctx, 'planFile').defaultPlan, key: stored });
    const { minted, account } = await changeAccount(id, decide, version);
    ctx.body = { key: minted ? key : maskKey(defaultKeyOf(account)?.display ?? ''), plan: account.plan };
  };
}

/**
 * `POST /v1/keys/developer/rotate`: the named key stops working everywhere, and its replacement is shown in full only this once.
 * `INVALID_KEY` for any key except the account's active one (contract.md#c6-wrong-keys).
 */
export function rotateDeveloperKey({ changeAccount, peppers }: KeyChanges): Stage {
  return async function rotateDeveloperKey(ctx) {
    const named = nameKey(parseBody(namedKeyBody, stateOf(ctx, 'body')).key, peppers);
    const { key, stored } = newKey(peppers, timeOf(ctx));
    const { account: id, version } = stateOf(ctx, 'caller');
    const account = await changeAccount(id, rotateKey({ named, key: stored }), version);
    if (account === undefined) throw invalidKey();
    ctx.body = { key, plan: account.plan, rotated: true };
  };
}

/** `POST /v1/keys/developer/revoke`: the named key stops working everywhere; `INVALID_KEY` as for rotation. */
export function revokeDeveloperKey({ changeAccount, peppers }: KeyChanges): Stage {
  return async function revokeDeveloperKey(ctx) {
    const { key } = parseBody(namedKeyBody, stateOf(ctx, 'body'));
    const { account: id, version } = stateOf(ctx, 'caller');
    const account = await changeAccount(id, revokeKey({ named: nameKey(key, peppers), at: timeOf(ctx) }), version);
    if (account === undefined) throw invalidKey();
    ctx.body = { key: maskKey(key), plan: account.plan, revoked: true };
  };
}

/** `GET /v1/keys/developer`: the last 100 keys of the account, masked, newest first (contract.md#c10-revoke-and-list). */
export function listDeveloperKeys({ store }: { store: Pick<Store, 'accounts'> }): Stage {
  return async function listDeveloperKeys(ctx) {
    const account = await store.accounts.findAccount(stateOf(ctx, 'caller').account);
    ctx.body = { object: 'list', data: account === undefined ? [] : presentDeveloperKeys(account) };
  };
}

/** A text that is not a key gets the same error as a key of another account. */
function nameKey(text: string, peppers: readonly string[]): NamedKey {
  if (isMaskedKey(text)) return { display: displayPart(text) };
  if (!isWellFormedKey(text)) throw invalidKey();
  return keyCredential(text, peppers);
}
