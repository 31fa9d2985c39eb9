import { z } from 'zod';
import type { ChangeAccount } from '../../../shared/account-changes/change-account.ts';
import { ApiError, toApiError } from '../../../shared/errors.ts';
import { type Account, monthOf } from '../../../shared/store/accounts/account.ts';
import type { Key, KeyFields } from '../../../shared/store/accounts/key.ts';
import type { Store } from '../../../shared/store/store.ts';
import type { KeyUsage } from '../../../shared/store/usage/usage-store.ts';
import { parseBody } from '../../api/json-body.ts';
import { parseQuery } from '../../api/list-query.ts';
import { presentList } from '../../api/present-list.ts';
import { newKey } from '../../callers/api-key.ts';
import { changeKey, createKey as create, revokeKey as revoke, rotateKey as rotate } from '../../callers/change-keys.ts';
import { endedWith, findKey, keysOf } from '../../callers/key-list.ts';
import { type AppContext, pathParameter, type Stage, stateOf } from '../../request-state.ts';
import type { RequestsToEnd } from '../../requests/requests-to-end.ts';
import { endKeyRequests } from './end-key-requests.ts';
import { keyChangeBody, keyFieldsOf, newKeyBody, rotationBody } from './key-fields.ts';
import { presentKey } from './present-key.ts';

type KeyStore = Pick<Store, 'accounts' | 'usage'>;
type KeyDeps = {
  store: KeyStore;
  changeAccount: ChangeAccount;
  peppers: readonly string[];
};

type RevocationDeps = Pick<KeyDeps, 'changeAccount'> & {
  store: KeyStore & Pick<Store, 'batches'>;
  requestsToEnd: Pick<RequestsToEnd, 'add'>;
};

export const revocationQuery = z.strictObject({
  end_requests: z
    .enum(['true', 'false'])
    .default('false')
    .meta({
      description:
        'Also ends the running requests of the key within two seconds, and cancels its batches: those that it has made, and those of keys that it has replaced and that are no longer valid.',
      documentedAs: z.boolean().default(false),
    }),
});

const keyId = /^key_[0-9A-HJKMNP-TV-Z]{26}$/;

/** `POST /v1/keys`: creates a further key, and shows it in full only this once (contract.md#i1-further-keys). */
export function createKey({ store, changeAccount, peppers }: KeyDeps): Stage {
  return async function createKey(ctx) {
    const now = stateOf(ctx, 'now');
    const planFile = stateOf(ctx, 'planFile');
    const { name, ...others } = parseBody(newKeyBody, stateOf(ctx, 'body'));
    const fields: KeyFields = { ...keyFieldsOf(others, { now, planFile }), name };
    const { account: id, version } = stateOf(ctx, 'caller');
    const { key, stored } = newKey(peppers, new Date(now));
    const decide = create({ account: id, plan: planFile.defaultPlan, key: stored, fields });
    const account = await changeAccount(id, decide, version);
    ctx.body = { ...(await present(ctx, store, account, stored.id)), key };
  };
}

/** `GET /v1/keys`: all keys of the account, masked: the default key, further keys, then the last of those that have ended. */
export function listKeys({ store }: { store: KeyStore }): Stage {
  return async function listKeys(ctx) {
    const { account: id } = stateOf(ctx, 'caller');
    const [account, usages] = await Promise.all([
      store.accounts.findAccount(id),
      ifAvailable(store.usage.findUsageByKey({ account: id, month: monthIn(ctx) })),
    ]);
    const found = account === undefined ? [] : keysOf(account);
    const show = (key: Key) => shown(ctx, key, usages && (usages.get(key.id) ?? noUsage));
    ctx.body = presentList({ found, limit: found.length, present: show });
  };
}

/** `GET /v1/keys/{id}`. */
export function retrieveKey({ store }: { store: KeyStore }): Stage {
  return async function retrieveKey(ctx) {
    const account = await store.accounts.findAccount(stateOf(ctx, 'caller').account);
    ctx.body = await present(ctx, store, account, wantedKey(ctx));
  };
}

/** `PATCH /v1/keys/{id}`: replaces the given fields. A narrower key is narrower everywhere from the answer on. */
export function updateKey({ store, changeAccount }: KeyDeps): Stage {
  return async function updateKey(ctx) {
    const now = stateOf(ctx, 'now');
    const id = wantedKey(ctx);
    const planFile = stateOf(ctx, 'planFile');
    const fields = keyFieldsOf(parseBody(keyChangeBody, stateOf(ctx, 'body')), { now, planFile });
    const { account, version } = stateOf(ctx, 'caller');
    const changed = await changeAccount(account, changeKey({ id, fields, at: new Date(now) }), version);
    ctx.body = await present(ctx, store, changed, id);
  };
}

/** `POST /v1/keys/{id}/rotate`: shows the new key in full only this once. The old one stays valid for `grace_seconds`. */
export function rotateKey({ store, changeAccount, peppers }: KeyDeps): Stage {
  return async function rotateKey(ctx) {
    const id = wantedKey(ctx);
    const { grace_seconds: graceSeconds } = parseBody(rotationBody, stateOf(ctx, 'body'));
    const { key, stored } = newKey(peppers, new Date(stateOf(ctx, 'now')));
    const { account, version } = stateOf(ctx, 'caller');
    const rotation = rotate({ named: { id }, key: stored, graceMs: graceSeconds * 1000 });
    const changed = await changeAccount(account, rotation, version);
    const replaces = await present(ctx, store, changed, id);
    ctx.body = { ...(await present(ctx, store, changed, stored.id)), key, replaces };
  };
}

/**
 * `DELETE /v1/keys/{id}`: the key stops working everywhere. A key that has ended stays as it is. With `end_requests` its requests and
 * batches end, too (contract.md#l7-suspension): a repeat completes that.
 */
export function revokeKey({ store, changeAccount, requestsToEnd }: RevocationDeps): Stage {
  return async function revokeKey(ctx) {
    const id = wantedKey(ctx);
    const { end_requests: endsRequests } = parseQuery(revocationQuery, ctx.querystring);
    const { account, version } = stateOf(ctx, 'caller');
    const at = new Date(stateOf(ctx, 'now'));
    const changed = await changeAccount(account, revoke({ named: { id }, at }), version);
    if (changed !== undefined && endsRequests === 'true') {
      const keyIds = endedWith(changed, id, at);
      await endKeyRequests({ store, requestsToEnd }, { account, keyIds, at });
    }
    ctx.body = await present(ctx, store, changed, id);
  };
}

/** `GET /v1/key`: the key of the request: what it is, may do, and has used (contract.md#i5-key-of-a-request). */
export function retrieveOwnKey({ store }: Pick<KeyDeps, 'store'>): Stage {
  return async function retrieveOwnKey(ctx) {
    const { account, keyId: id = '', plan } = stateOf(ctx, 'caller');
    const limit = stateOf(ctx, 'planFile').plans[plan]?.requestsPerDay ?? null;
    const day = { requests: stateOf(ctx, 'counters').dayRequests, limit };
    ctx.body = { ...(await present(ctx, store, await store.accounts.findAccount(account), id)), plan, day };
  };
}

/** Presents one key by its id, with its usage of the month. Fails with `NOT_FOUND` if the account has no such key. */
async function present(ctx: AppContext, store: KeyStore, account: Account | undefined, id: string) {
  const key = findKey(account, id);
  if (account === undefined || key === undefined) throw noSuchKey();
  const details = await ifAvailable(store.usage.findKeyUsage({ account: account.id, month: monthIn(ctx), keyId: id }));
  const usage = details?.reduce((sum, { counts }) => sumOf(sum, counts), noUsage);
  return shown(ctx, key, usage);
}

function shown(ctx: AppContext, key: Key, usage: KeyUsage | undefined) {
  return presentKey(key, { now: stateOf(ctx, 'now'), month: monthIn(ctx), usage: usage ?? null });
}

function monthIn(ctx: AppContext): string {
  return monthOf(new Date(stateOf(ctx, 'now')));
}

const noUsage: KeyUsage = { requests: 0, chargedTokens: 0 };

function sumOf(one: KeyUsage, other: KeyUsage): KeyUsage {
  return { requests: one.requests + other.requests, chargedTokens: one.chargedTokens + other.chargedTokens };
}

/** Undefined if the store cannot tell the usage: keys can be shown, made and revoked nevertheless. */
async function ifAvailable<Usage>(reading: Promise<Usage>): Promise<Usage | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (toApiError(error).code !== 'SERVICE_UNAVAILABLE') throw error;
    return undefined;
  }
}

function wantedKey(ctx: AppContext): string {
  const id = `key_${pathParameter(ctx, 'key')}`; // the prefix is part of the route
  if (!keyId.test(id)) throw noSuchKey();
  return id;
}

function noSuchKey(): ApiError {
  return new ApiError('NOT_FOUND', 'There is no such key.');
}
