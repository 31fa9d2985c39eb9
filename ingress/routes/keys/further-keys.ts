import { ApiError } from '../../../shared/errors.ts';
import type { PlanFile } from '../../../shared/process/plan-file.ts';
import { type Account, monthOf } from '../../../shared/store/accounts/account.ts';
import type { KeyFields } from '../../../shared/store/accounts/further-key.ts';
import type { Store } from '../../../shared/store/store.ts';
import { parseBody } from '../../api/json-body.ts';
import { presentList } from '../../api/present-list.ts';
import {
  changeFurtherKey,
  createFurtherKey,
  findKey,
  keysOf,
  revokeKeyById,
  rotateKeyById,
} from '../../callers/further-key-changes.ts';
import type { ChangeAccount } from '../../callers/revocation/change-account.ts';
import { type AppContext, pathParameter, type Stage, stateOf } from '../../request-state.ts';
import { keyChangeBody, keyFieldsOf, newKeyBody, rotationBody } from './key-fields.ts';
import { newKey } from './new-key.ts';
import { presentKey } from './present-key.ts';

type KeyStore = Pick<Store, 'findAccount' | 'findUsageByKey'>;
type KeyDeps = {
  store: KeyStore;
  changeAccount: ChangeAccount;
  peppers: readonly string[];
  planFile: PlanFile;
};

const keyId = /^key_[0-9A-HJKMNP-TV-Z]{26}$/;

/** `POST /v1/keys`: creates a further key, and shows it in full only this once (contract.md#i1-further-keys). */
export function createKey({ store, changeAccount, peppers, planFile }: KeyDeps): Stage {
  return async function createKey(ctx) {
    const now = stateOf(ctx, 'now');
    const { name, ...others } = parseBody(newKeyBody, stateOf(ctx, 'body'));
    const fields: KeyFields = { ...withoutUndefined(keyFieldsOf(others, { now, planFile })), name };
    const { account: id, version } = stateOf(ctx, 'caller');
    const { key, stored } = newKey(peppers, new Date(now));
    const decide = createFurtherKey({ account: id, plan: planFile.defaultPlan, key: stored, fields });
    const show = await presenting(ctx, store);
    const account = await changeAccount(id, decide, version);
    ctx.body = { ...show(account, stored.id), key };
  };
}

/** `GET /v1/keys`: all keys of the account, masked: the default key, further keys, then the last of those that have ended. */
export function listKeys({ store }: { store: KeyStore }): Stage {
  return async function listKeys(ctx) {
    const show = await presenting(ctx, store);
    const account = await store.findAccount(stateOf(ctx, 'caller').account);
    const found = account === undefined ? [] : keysOf(account);
    ctx.body = presentList({ found, limit: found.length, present: ({ key }) => show(account, key.id) });
  };
}

/** `GET /v1/keys/{id}`. */
export function retrieveKey({ store }: { store: KeyStore }): Stage {
  return async function retrieveKey(ctx) {
    const show = await presenting(ctx, store);
    ctx.body = show(await store.findAccount(stateOf(ctx, 'caller').account), wantedKey(ctx));
  };
}

/** `PATCH /v1/keys/{id}`: replaces the given fields. A narrower key is narrower everywhere from the answer on. */
export function updateKey({ store, changeAccount, planFile }: KeyDeps): Stage {
  return async function updateKey(ctx) {
    const now = stateOf(ctx, 'now');
    const id = wantedKey(ctx);
    const fields = keyFieldsOf(parseBody(keyChangeBody, stateOf(ctx, 'body')), { now, planFile });
    const { account, version } = stateOf(ctx, 'caller');
    const show = await presenting(ctx, store);
    const changed = await changeAccount(account, changeFurtherKey({ id, fields, at: new Date(now) }), version);
    ctx.body = show(changed, id);
  };
}

/** `POST /v1/keys/{id}/rotate`: shows the new key in full only this once. The old one stays valid for `grace_seconds`. */
export function rotateKey({ store, changeAccount, peppers }: KeyDeps): Stage {
  return async function rotateKey(ctx) {
    const id = wantedKey(ctx);
    const { grace_seconds: graceSeconds } = parseBody(rotationBody, stateOf(ctx, 'body'));
    const { key, stored } = newKey(peppers, new Date(stateOf(ctx, 'now')));
    const { account, version } = stateOf(ctx, 'caller');
    const rotation = rotateKeyById({ id, key: stored, graceMs: graceSeconds * 1000 });
    const show = await presenting(ctx, store);
    const changed = await changeAccount(account, rotation, version);
    ctx.body = { ...show(changed, stored.id), key, replaces: show(changed, id) };
  };
}

/** `DELETE /v1/keys/{id}`: the key stops working everywhere. A key that has ended stays as it is. */
export function revokeKey({ store, changeAccount }: KeyDeps): Stage {
  return async function revokeKey(ctx) {
    const id = wantedKey(ctx);
    const { account, version } = stateOf(ctx, 'caller');
    const at = new Date(stateOf(ctx, 'now'));
    const show = await presenting(ctx, store);
    const changed = await changeAccount(account, revokeKeyById({ id, at }), version);
    ctx.body = show(changed, id);
  };
}

/** `GET /v1/key`: the key of the request: what it is, may do, and has used (contract.md#i5-key-of-a-request). */
export function retrieveOwnKey({ store, planFile }: Pick<KeyDeps, 'store' | 'planFile'>): Stage {
  return async function retrieveOwnKey(ctx) {
    const { account, keyId: id = '', plan } = stateOf(ctx, 'caller');
    const show = await presenting(ctx, store);
    const day = { requests: stateOf(ctx, 'counters').dayRequests, limit: planFile.plans[plan]?.requestsPerDay ?? null };
    ctx.body = { ...show(await store.findAccount(account), id), plan, day };
  };
}

/**
 * Reads the caller's usage of the month, and returns a function that presents a key of an account with it. That function fails with
 * `NOT_FOUND` if the account has no such key. The usage is read before a change: if it cannot be read, nothing is changed, and no key is
 * made that its owner never sees.
 */
async function presenting(ctx: AppContext, store: KeyStore) {
  const now = stateOf(ctx, 'now');
  const month = monthOf(new Date(now));
  const usages = await store.findUsageByKey({ account: stateOf(ctx, 'caller').account, month });
  return function show(account: Account | undefined, id: string) {
    const known = findKey(account, id);
    if (known === undefined) throw noSuchKey();
    const { lastUse } = account ?? {};
    const lastUsedAt = lastUse?.keyId === id ? lastUse.at : undefined;
    return presentKey(known, { now, month, usage: usages.get(id), lastUsedAt });
  };
}

function wantedKey(ctx: AppContext): string {
  const id = `key_${pathParameter(ctx, 'key')}`; // the prefix is part of the route
  if (!keyId.test(id)) throw noSuchKey();
  return id;
}

function noSuchKey(): ApiError {
  return new ApiError('NOT_FOUND', 'There is no such key.');
}

function withoutUndefined<Fields extends object>(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Fields;
}
