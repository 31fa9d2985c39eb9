import { z } from 'zod';
import type { ChangeAccount } from '../../../shared/account-changes/change-account.ts';
import type { Account } from '../../../shared/store/accounts/account.ts';
import type { Store } from '../../../shared/store/store.ts';
import { parseBody } from '../../api/json-body.ts';
import { mintKey, type NamedKey, revokeKey, rotateKey } from '../../callers/account-changes.ts';
import { displayPart, isMaskedKey, isWellFormedKey, maskKey } from '../../callers/api-key.ts';
import { invalidKey, keyCredential } from '../../callers/authorization.ts';
import { type Stage, stateOf } from '../../request-state.ts';
import { newKey } from './new-key.ts';

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
    const { key, stored } = newKey(peppers);
    const decide = mintKey({ account: id, plan: stateOf(ctx, 'planFile').defaultPlan, key: stored });
    const { minted, account } = await changeAccount(id, decide, version);
    ctx.body = { key: minted ? key : maskKey(account.key?.display ?? ''), plan: account.plan };
  };
}

/**
 * `POST /v1/keys/developer/rotate`: the named key stops working everywhere, and its replacement is shown in full only this once.
 * `INVALID_KEY` for any key except the account's active one (contract.md#c6-wrong-keys).
 */
export function rotateDeveloperKey({ changeAccount, peppers }: KeyChanges): Stage {
  return async function rotateDeveloperKey(ctx) {
    const named = nameKey(parseBody(namedKeyBody, stateOf(ctx, 'body')).key, peppers);
    const { key, stored } = newKey(peppers);
    const { account: id, version } = stateOf(ctx, 'caller');
    const account = await changeAccount(id, rotateKey({ named, key: stored }), version);
    if (account === undefined) throw invalidKey();
    ctx.body = { key, plan: account.plan, rotated: true };
  };
}

/** `POST /v1/keys/developer/revoke`: the named key stops working everywhere; `INVALID_KEY` as for rotation. */
export function revokeDeveloperKey({ changeAccount, peppers }: KeyChanges): Stage {
  return async function revokeDeveloperKey(ctx) {
    const named = nameKey(parseBody(namedKeyBody, stateOf(ctx, 'body')).key, peppers);
    const { account: id, version } = stateOf(ctx, 'caller');
    const ended = await changeAccount(id, revokeKey({ named, at: new Date() }), version);
    if (ended === undefined) throw invalidKey();
    ctx.body = { key: maskKey(ended.display), plan: ended.plan, revoked: true };
  };
}

/** `GET /v1/keys/developer`: the last 100 keys of the account, masked, newest first (contract.md#c10-revoke-and-list). */
export function listDeveloperKeys({ store }: { store: Pick<Store, 'findAccount'> }): Stage {
  return async function listDeveloperKeys(ctx) {
    const account = await store.findAccount(stateOf(ctx, 'caller').account);
    ctx.body = { object: 'list', data: account === undefined ? [] : keysOf(account) };
  };
}

const listedKeysMax = 100;

/** Returns the last 100 keys of an account in the format for clients. */
export function keysOf({ key, plan, endedKeys, lastUse }: Account): object[] {
  const active = key && {
    ...key,
    plan,
    state: 'active',
    lastUsedAt: lastUse?.keyId === key.id ? lastUse.at : undefined,
  };
  return [...(active ? [active] : []), ...endedKeys].slice(0, listedKeysMax).map((known) => ({
    id: known.id,
    key: maskKey(known.display),
    plan: known.plan,
    state: known.state,
    createdAt: known.createdAt,
    ...('endedAt' in known && { endedAt: known.endedAt }),
    ...(known.lastUsedAt !== undefined && { lastUsedAt: known.lastUsedAt }),
  }));
}

/** A text that is not a key gets the same error as a key of another account. */
function nameKey(text: string, peppers: readonly string[]): NamedKey {
  if (isMaskedKey(text)) return { display: displayPart(text) };
  if (!isWellFormedKey(text)) throw invalidKey();
  return keyCredential(text, peppers);
}
