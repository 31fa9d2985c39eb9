import { z } from 'zod';
import { nextBatch } from '../../shared/batches/batch-states.ts';
import { ApiError, toApiError } from '../../shared/errors.ts';
import { type Account, monthOf } from '../../shared/store/records/account.ts';
import type { Key, KeyFields } from '../../shared/store/records/key.ts';
import type { Store } from '../../shared/store/records/store.ts';
import type { KeyUsage } from '../../shared/store/usage/usage-store.ts';
import { exampleList, presentList } from '../api/lists.ts';
import { type CheckedCaller, type Route, route } from '../api/route.ts';
import { newKey } from '../authentication/api-key.ts';
import {
  changeKey,
  createKey as create,
  createConsoleKey,
  endedWith,
  findKey,
  keysOf,
  revokeKey as revoke,
  rotateKey as rotate,
} from '../authentication/change-keys.ts';
import type { RequestsToEnd } from '../requests/requests-to-end.ts';
import { byOwner, emptyObject } from './developer-keys.ts';
import { keyChangeBody, keyFieldsOf, newKeyBody, rotationBody } from './key-fields.ts';
import {
  createdKeySchema,
  keyListSchema,
  keySchema,
  ownKeySchema,
  presentKey,
  successorKeySchema,
} from './present-key.ts';

const revocationQuery = z.strictObject({
  end_requests: z
    .enum(['true', 'false'])
    .default('false')
    .meta({
      description:
        'Also ends the running requests of the key within two seconds, and cancels its batches: those that it has made, and those of keys that it has replaced and that are no longer valid.',
      documentedAs: z.boolean().default(false),
    }),
});

export const keyParameter = {
  description: 'The id of a key.',
  example: 'key_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
};

const params = { key: { ...keyParameter, pattern: /^key_[0-9A-HJKMNP-TV-Z]{26}$/, missing: noSuchKey } };

const noUsage: KeyUsage = { requests: 0, chargedTokens: 0 };

const fullKey = 'svc_…';

const exampleKey = {
  id: 'key_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
  object: 'key',
  name: 'nightly import',
  key: 'svc_Ab3xYz****',
  default: false,
  purpose: null,
  state: 'active',
  created_at: 1_767_225_600,
  expires_at: 1_798_761_600,
  valid_until: null,
  ended_at: null,
  last_used_at: 1_767_225_660,
  endpoints: ['/v1/embeddings'],
  models: null,
  allowed_ips: ['192.0.2.0/24'],
  limits: { requests_per_minute: 60, tokens_per_minute: null, tokens_per_month: 1_000_000 },
  files: 'own',
  usage: { month: '2026-01', requests: 42, tokens: 3_120 },
} as const;

const unused = { ...exampleKey, last_used_at: null, usage: { month: '2026-01', requests: 0, tokens: 0 } };

const exampleConsoleKey = {
  ...unused,
  name: 'console',
  key: fullKey,
  purpose: 'console',
  expires_at: exampleKey.created_at + 3_600,
  endpoints: null,
  allowed_ips: null,
  limits: null,
  files: 'none',
} as const;

const { name, expires_at, endpoints, allowed_ips } = exampleKey;

const wanted = {
  name,
  expires_at,
  endpoints,
  allowed_ips,
  limits: { requests_per_minute: 60, tokens_per_month: 1_000_000 },
};

const newId = 'key_01KBN5A0B1C2D3E4F5G6H7J8KM';

export const keyRoutes: readonly Route[] = [
  /** Creates a further key, and shows it in full only this once (contract.md#i1-further-keys). */
  route({
    id: 'createKey',
    method: 'POST',
    path: '/v1/keys',
    access: 'signIn',
    tag: 'Keys',
    summary: 'Create a further key',
    description:
      'Shown in full only once. All keys of an account share its quota and its limits per minute; the limits of a key narrow that further. At most 100 further keys can be valid; then `CONFLICT`.',
    body: { schema: newKeyBody, example: wanted },
    answers: { description: 'The key.', schema: createdKeySchema, example: { ...unused, key: fullKey } },
    refusals: ['CONFLICT'],
    limits: ['settings_limit'],
    noStore: true,
    async handle(request, { store, authentication: { changeRecorded, peppers } }) {
      const { planFile, caller, now, at, body } = request;
      const { name, ...others } = body;
      const fields: KeyFields = { ...keyFieldsOf(others, { now, planFile }), name };
      const { account: id } = caller;
      const { key, stored } = newKey(peppers, at);
      const decide = create({ account: id, plan: planFile.defaultPlan, key: stored, fields });
      const account = await changeRecorded(id, decide, byOwner(request));
      return { ...(await present(request, store, { account, id: stored.id })), key };
    },
  }),
  /**
   * Creates the key with which the console tries requests, and ends the one before it (contract.md#i6-key-of-the-console). If the answer is
   * lost, a repeat ends the key that no one has seen.
   */
  route({
    id: 'createConsoleKey',
    method: 'POST',
    path: '/v1/keys/console',
    access: 'signIn',
    tag: 'Keys',
    summary: 'Create the key of the console',
    description:
      'A further key named `console`, for requests that a person tries. It ends in an hour, uses no files and no batches, and cannot be changed or rotated. An account has one at a time: the earlier one stops working. It does not count among the 100 further keys nor among the keys of a day: an account creates at most 200 of these a day (UTC).',
    body: { schema: emptyObject, example: {} },
    answers: {
      description: 'The key, in full only this once.',
      schema: createdKeySchema,
      example: exampleConsoleKey,
    },
    limits: ['settings_limit'],
    noStore: true,
    async handle(request, { store, authentication: { changeRecorded, peppers } }) {
      const { planFile, caller, at } = request;
      const { account: id } = caller;
      const { key, stored } = newKey(peppers, at);
      const decide = createConsoleKey({ account: id, plan: planFile.defaultPlan, key: stored });
      const account = await changeRecorded(id, decide, byOwner(request));
      return { ...(await present(request, store, { account, id: stored.id })), key };
    },
  }),
  /** All keys of the account, masked: the default key, further keys, then the last of those that have ended. */
  route({
    id: 'listKeys',
    method: 'GET',
    path: '/v1/keys',
    access: 'signIn',
    tag: 'Keys',
    summary: 'List all keys of the account',
    description: 'Masked: the default key, further keys, then the last keys that have ended. All in one page.',
    answers: {
      description: 'The keys.',
      schema: keyListSchema,
      example: exampleList(exampleKey),
    },
    noStore: true,
    inTurns: true,
    async handle({ caller: { account: id }, now }, { store }) {
      const [account, usages] = await Promise.all([
        store.accounts.findAccount(id),
        ifAvailable(store.usage.findUsageByKey({ account: id, month: monthAt(now) })),
      ]);
      const found = account === undefined ? [] : keysOf(account);
      const show = (key: Key) => shown(key, usages && (usages.get(key.id) ?? noUsage), now);
      return presentList({ found, limit: found.length, present: show });
    },
  }),
  route({
    id: 'retrieveKey',
    method: 'GET',
    path: '/v1/keys/key_:key',
    access: 'signIn',
    tag: 'Keys',
    summary: 'Retrieve a key of the account',
    answers: { description: 'The key, masked.', schema: keySchema, example: exampleKey },
    refusals: ['NOT_FOUND'],
    params,
    noStore: true,
    inTurns: true,
    async handle(request, { store }) {
      const account = await store.accounts.findAccount(request.caller.account);
      return present(request, store, { account, id: request.params.key });
    },
  }),
  /** Replaces the given fields. A narrower key is narrower everywhere from the answer on. */
  route({
    id: 'updateKey',
    method: 'PATCH',
    path: '/v1/keys/key_:key',
    access: 'signIn',
    tag: 'Keys',
    summary: 'Change a further key',
    description:
      'Replaces the fields that are sent; null removes one. It applies to every request that begins after the answer. `CONFLICT` for the default key and that of the console, which have no settings, and for a key that was rotated or revoked.',
    body: { schema: keyChangeBody, example: { models: ['small-chat'], expires_at: null } },
    answers: {
      description: 'The key, masked.',
      schema: keySchema,
      example: { ...exampleKey, models: ['small-chat'], expires_at: null },
    },
    refusals: ['NOT_FOUND', 'CONFLICT'],
    limits: ['settings_limit'],
    params,
    noStore: true,
    async handle(request, { store, authentication: { changeRecorded } }) {
      const { planFile, caller, now, at, body } = request;
      const { key: id } = request.params;
      const fields = keyFieldsOf(body, { now, planFile });
      const changed = await changeRecorded(caller.account, changeKey({ id, fields, at }), byOwner(request));
      return present(request, store, { account: changed, id });
    },
  }),
  /** Shows the new key in full only this once. The old one stays valid for `grace_seconds`. */
  route({
    id: 'rotateKey',
    method: 'POST',
    path: '/v1/keys/key_:key/rotate',
    access: 'signIn',
    tag: 'Keys',
    summary: 'Rotate a key, with a grace period',
    description:
      'The new key has the settings of the old one, which stays valid for `grace_seconds`. Works for the default key, too. `CONFLICT` for a key that has ended or expired, and for that of the console.',
    body: { schema: rotationBody, example: { grace_seconds: 86_400 } },
    answers: {
      description: 'The new key, in full only this once, and the old one.',
      schema: successorKeySchema,
      example: {
        ...unused,
        id: newId,
        key: fullKey,
        replaces: { ...exampleKey, state: 'rotated', valid_until: 1_767_312_000 },
      },
    },
    refusals: ['NOT_FOUND', 'CONFLICT'],
    limits: ['settings_limit'],
    params,
    noStore: true,
    async handle(request, { store, authentication: { changeRecorded, peppers } }) {
      const { caller, at, body } = request;
      const { key: id } = request.params;
      const { key, stored } = newKey(peppers, at);
      const rotation = rotate({ named: { id }, key: stored, graceMs: body.grace_seconds * 1000 });
      const account = await changeRecorded(caller.account, rotation, byOwner(request));
      const replaces = await present(request, store, { account, id });
      return { ...(await present(request, store, { account, id: stored.id })), key, replaces };
    },
  }),
  /**
   * The key stops working everywhere. A key that has ended stays as it is. With `end_requests` its requests and
   * batches end, too (contract.md#l7-suspension): a repeat completes that.
   */
  route({
    id: 'revokeKey',
    method: 'DELETE',
    path: '/v1/keys/key_:key',
    access: 'signIn',
    tag: 'Keys',
    summary: 'Revoke a key of the account',
    description:
      'It stops working immediately, everywhere. A key that has ended stays as it is. Running requests and batches of the key continue, unless `end_requests` is true; a repeat ends what is left of them.',
    query: revocationQuery,
    answers: {
      description: 'The key, masked.',
      schema: keySchema,
      example: { ...exampleKey, state: 'revoked', ended_at: 1_767_225_700 },
    },
    refusals: ['NOT_FOUND'],
    limits: ['settings_limit'],
    params,
    noStore: true,
    async handle(request, { store, authentication: { changeRecorded }, queue: { requestsToEnd } }) {
      const { at, query } = request;
      const { account } = request.caller;
      const { key: id } = request.params;
      const changed = await changeRecorded(account, revoke({ named: { id }, at }), byOwner(request));
      if (changed !== undefined && query.end_requests === 'true') {
        const keyIds = endedWith(changed, id, at);
        await endKeyRequests({ store, requestsToEnd }, { account, keyIds, at });
      }
      return present(request, store, { account: changed, id });
    },
  }),
  /** The key of the request: what it is, may do, and has used (contract.md#i5-key-of-a-request). */
  route({
    id: 'retrieveOwnKey',
    method: 'GET',
    path: '/v1/key',
    access: 'key',
    tag: 'Keys',
    summary: 'Retrieve the key of this request',
    description:
      'What the key is, what it may do, what it has used this month, and how many requests its account has made today. Works with every key.',
    answers: {
      description: 'The key, masked.',
      schema: ownKeySchema,
      example: { ...exampleKey, plan: 'free', day: { requests: 0, limit: null } },
    },
    noStore: true,
    counted: true,
    async handle(request, { store }) {
      const { planFile, caller, counters } = request;
      const { keyId: id = '', plan } = caller;
      const limit = planFile.plans[plan]?.requestsPerDay ?? null;
      const day = { requests: counters.dayRequests, limit };
      const account = await store.accounts.findAccount(caller.account);
      return { ...(await present(request, store, { account, id })), plan, day };
    },
  }),
];

/** Presents one key by its id, with its usage of the month. Fails with `NOT_FOUND` if the account has no such key. */
async function present(
  { now }: Pick<CheckedCaller, 'now'>,
  store: Pick<Store, 'usage'>,
  { account, id }: { account: Account | undefined; id: string },
) {
  const key = findKey(account, id);
  if (account === undefined || key === undefined) throw noSuchKey();
  const details = await ifAvailable(store.usage.findKeyUsage({ account: account.id, month: monthAt(now), keyId: id }));
  const usage = details?.reduce((sum, { counts }) => sumOf(sum, counts), noUsage);
  return shown(key, usage, now);
}

function shown(key: Key, usage: KeyUsage | undefined, now: number) {
  return presentKey(key, { now, month: monthAt(now), usage: usage ?? null });
}

/** `now` in milliseconds. */
function monthAt(now: number): string {
  return monthOf(new Date(now));
}

function sumOf(one: KeyUsage, other: KeyUsage): KeyUsage {
  return { requests: one.requests + other.requests, chargedTokens: one.chargedTokens + other.chargedTokens };
}

/** Undefined if the store is unavailable: keys can be shown, made and revoked without it. */
async function ifAvailable<Usage>(reading: Promise<Usage>): Promise<Usage | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (toApiError(error).code !== 'SERVICE_UNAVAILABLE') throw error;
    return undefined;
  }
}

function noSuchKey(): ApiError {
  return new ApiError('NOT_FOUND', 'There is no such key.');
}

/**
 * Ends the running requests of keys that have ended, and cancels the batches that they have made. If the process dies meanwhile, a repeat
 * does the rest. The mark is first: a batch that is being created meanwhile is not listed here, and is cancelled by the request that
 * creates it.
 */
async function endKeyRequests(
  { store, requestsToEnd }: { store: Pick<Store, 'batches'>; requestsToEnd: Pick<RequestsToEnd, 'add'> },
  { account, keyIds, at }: { account: string; keyIds: readonly string[]; at: Date },
): Promise<void> {
  await requestsToEnd.add(keyIds, at);
  const open = await store.batches.listOpenBatches([account]);
  for (const { id, keyId } of open) if (keyIds.includes(keyId)) await cancelOne(store, id, at);
}

/** Cancels a batch, unless it is being cancelled or has ended. */
export async function cancelOne(store: Pick<Store, 'batches'>, id: string, at: Date): Promise<void> {
  await store.batches.changeBatch(id, (batch) => {
    const next = batch && nextBatch(batch, { type: 'cancel' }, at);
    return { result: undefined, ...(next && { next }) };
  });
}
