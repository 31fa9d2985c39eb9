import { isDeepStrictEqual } from 'node:util';
import { newAccount } from '../../shared/account-changes/change-settings.ts';
import { ApiError, rateLimitExceeded } from '../../shared/errors.ts';
import type { Decision } from '../../shared/store/documents.ts';
import { type Account, type Change, type GuestSecrets, monthOf } from '../../shared/store/records/account.ts';
import {
  defaultKeyOf,
  isDefaultKey,
  type Key,
  type KeyFields,
  type KeyLimits,
  type NewKey,
} from '../../shared/store/records/key.ts';
import { ended, findKey, hasEnded, isOver, isValid, leaving, withKeys } from './key-list.ts';

/** Each takes memory in every caller's account, and a read of an account reads all of them. */
const furtherKeysMax = 100;
/** A key keeps access to what the last of the keys before it have made. */
const replacedKept = 20;
const keysCreatedPerDayMax = 1_000;
const dayMs = 86_400_000;

/**
 * A key as named by a caller: any key of the account, by its id; or its default key (contract.md#c5-naming-a-key), by its hash under each
 * pepper in use, or its first ten characters.
 */
export type NamedKey = { id: string } | { hashes: readonly string[] } | { display: string };

/*
 * The states of a key (contract.md#t1-key-states, contract.md#i2-routes-of-further-keys). A key that has expired can be given a later end;
 * all other ends are final. Every change first ends the keys whose grace is over. Every other transition leaves the account unchanged.
 *
 *   none     create, mint   active; a mint beside a default key: none
 *   active   change         active, or expired once its end has come; not the default key
 *   active   rotate         rotated, valid until its grace is over, and a new key is active
 *   active   revoke         revoked
 *   rotated  change         rotated, in its grace
 *   rotated  revoke         revoked, in its grace
 */

type Creation = { account: string; plan: string; key: NewKey };

/**
 * Creates the default key, and an unknown account with `plan`; a known account keeps its plan (contract.md#c13-accounts). Fails as
 * `withKeyCreated` does.
 */
export function mintKey(creation: Creation) {
  return (account: Account | undefined): Decision<Account, { minted: boolean; account: Account }> => {
    if (account !== undefined && defaultKeyOf(account) !== undefined) return { result: { minted: false, account } };
    const next = withNewKey(account, creation, defaultFields);
    return { result: { minted: true, account: next }, next };
  };
}

/** Creates a further key. Fails with `CONFLICT` if the account has 100 that are valid, and as `withKeyCreated` does. */
export function createKey({ fields, ...creation }: Creation & { fields: KeyFields }) {
  return (account: Account | undefined): Decision<Account, Account> => {
    const next = withNewKey(account, creation, { ...fields, isDefault: false });
    requireRoom(next, creation.key.createdAt);
    return { result: next, next };
  };
}

/**
 * Replaces these fields; one that is undefined is removed. Undefined if there is no such key. Fails with `CONFLICT` if it cannot change.
 */
export function changeKey({ id, fields, at }: { id: string; fields: Partial<KeyFields>; at: Date }) {
  return (known: Account | undefined): Decision<Account, Account | undefined> => {
    const found = findKey(known, id);
    if (known === undefined || found === undefined) return { result: undefined };
    if (hasEnded(found, at)) throw keyEnded();
    if (isDefaultKey(found)) throw new ApiError('CONFLICT', 'The default key has no settings. Create a further key.');
    const key = withMonth(withoutUndefined({ ...found, ...fields }), found.limits, at);
    if (isDeepStrictEqual(key, found)) return { result: known };
    const keys = known.keys.map((each) => (each.id === id ? key : each));
    const next = withKeys(known, keys, { at, keyChanged: id });
    requireRoom(next, at);
    return { result: next, next };
  };
}

/**
 * Gives the key a successor with the same settings (contract.md#c7-atomic-rotation, contract.md#c9-what-rotation-keeps). The key itself
 * stays valid for `graceMs`, but not beyond its own end. Undefined if there is no such key. Fails with `CONFLICT` for a key that is no
 * longer active, and as `withKeyCreated` and `findNamed` do.
 */
export function rotateKey({ named, key, graceMs = 0 }: { named: NamedKey; key: NewKey; graceMs?: number }) {
  return (known: Account | undefined): Decision<Account, Account | undefined> => {
    const at = key.createdAt;
    const old = findNamed(known, named);
    if (known === undefined || old === undefined) return { result: undefined };
    if (old.state === 'rotated' || hasEnded(old, at)) throw keyEnded();
    if (isOver(old.expiresAt, at)) {
      throw new ApiError('CONFLICT', 'This key has expired. Give it a later end, or create another one.');
    }
    const { lastUsedAt: _, ...fields } = old;
    const successor = { ...fields, ...key, replaced: [old.id, ...(old.replaced ?? [])].slice(0, replacedKept) };
    const endsAt = new Date(at.getTime() + graceMs);
    const left: Key = { ...leaving(known, old), state: 'rotated', endsAt, ...(graceMs > 0 && { rotatedAt: at }) };
    const keys = [...known.keys.map((each) => (each === old ? successor : each)), left];
    const next = withKeys(withKeyCreated(known, at), keys, { at, keyRotated: { from: old.id, to: key.id } });
    if (graceMs > 0) requireRoom(next, at);
    return { result: next, next };
  };
}

/** `by`: the operator who revokes it, unless it is the account itself. */
type Revocation = { named: NamedKey; at: Date } & Partial<Pick<Change, 'by' | 'origin'>>;

/**
 * The key stops working at once. A key that has ended already stays as it is. Undefined if there is no such key. Fails as `findNamed` does.
 */
export function revokeKey({ named, at, ...by }: Revocation) {
  return (known: Account | undefined): Decision<Account, Account | undefined> => {
    const key = findNamed(known, named);
    if (known === undefined || key === undefined) return { result: undefined };
    if (hasEnded(key, at)) return { result: known };
    const keys = [...known.keys.filter((each) => each !== key), ended(leaving(known, key), 'revoked', at)];
    const next = withKeys(known, keys, { at, keyRevoked: key.id, ...by });
    return { result: next, next };
  };
}

type GuestMint = Creation & { guest: GuestSecrets };

/**
 * Mints the key of a device. A device keeps its key while the secrets that the key was made with are in use, so repeated calls have no
 * effect. If only the pepper was removed, the key stays the same under a new hash. If the secret that it is derived from was removed, the
 * key ends.
 */
export function mintGuestKey({ account: id, plan, key, guest }: GuestMint, inUse: (guest: GuestSecrets) => boolean) {
  return (account: Account | undefined): Decision<Account, Account> => {
    const old = defaultKeyOf(account);
    if (account?.guest !== undefined && old !== undefined && inUse(account.guest)) return { result: account };
    const at = key.createdAt;
    const before = account ?? newDevice(id, plan, at);
    const isSame = old !== undefined && before.guest?.secret === guest.secret;
    const minted = isSame ? { ...old, hash: key.hash } : { ...key, ...defaultFields };
    const left = isSame || old === undefined ? [] : [ended(leaving(before, old), 'rotated', at)];
    const keys = [...before.keys.filter((each) => each !== old), minted, ...left];
    const next = withKeys({ ...before, guest }, keys, { at, keyMinted: minted.id });
    return { result: next, next };
  };
}

/**
 * Counts a key that the account creates. Fails with `rate_limit_exceeded` beyond 1,000 on one day, UTC
 * (contract.md#ho4-what-an-account-creates).
 */
function withKeyCreated(account: Account, at: Date): Account {
  const { keysCreated } = account;
  const today = at.toISOString().slice(0, 10);
  // The clock of another process may already be in the next day.
  const day = keysCreated !== undefined && keysCreated.day > today ? keysCreated.day : today;
  const count = keysCreated?.day === day ? keysCreated.count : 0;
  if (count < keysCreatedPerDayMax) return { ...account, keysCreated: { day, count: count + 1 } };
  const waitMs = Date.parse(day) + dayMs - at.getTime();
  const message = `This account has created ${keysCreatedPerDayMax} keys today (UTC), and can create no more. Retry in ${waitMs} ms.`;
  throw rateLimitExceeded('settings_limit', message, waitMs);
}

/**
 * A removed device can return. Its versions start at the time in seconds since 1970, so that none repeats an earlier one: otherwise a stale
 * caller in the memory of an ingress would be taken for the current one.
 */
function newDevice(id: string, plan: string, createdAt: Date): Account {
  return { ...newAccount(id, plan, createdAt), version: Math.floor(createdAt.getTime() / 1000) };
}

const defaultFields = { name: 'default', isDefault: true, state: 'active' } as const;

function withNewKey(
  known: Account | undefined,
  { account: id, plan, key }: Creation,
  fields: KeyFields & Pick<Key, 'isDefault'>,
): Account {
  const at = key.createdAt;
  const before = withKeyCreated(known ?? newAccount(id, plan, at), at);
  const created = withMonth(withoutUndefined({ ...key, ...fields, state: 'active' }), undefined, at);
  return withKeys(before, [...before.keys, created], { at, keyMinted: key.id });
}

/** Fails with `INVALID_KEY` for the value of an active further key, which has routes of its own. */
function findNamed(account: Account | undefined, named: NamedKey): Key | undefined {
  if ('id' in named) return findKey(account, named.id);
  const keys = account?.keys.filter((each) => each.state === 'active' && hasName(each, named)) ?? [];
  const key = keys.find(isDefaultKey) ?? keys[0];
  if (key === undefined || key.isDefault) return key;
  const routes = `POST /v1/keys/${key.id}/rotate and DELETE /v1/keys/${key.id}`;
  throw new ApiError('INVALID_KEY', `This is a further key of the account. Use ${routes}.`);
}

function hasName({ hash = '', display }: Key, named: { hashes: readonly string[] } | { display: string }): boolean {
  return 'hashes' in named ? named.hashes.includes(hash) : named.display === display;
}

function keyEnded(): ApiError {
  return new ApiError('CONFLICT', 'This key was rotated or revoked, and cannot change any more.');
}

function requireRoom({ keys }: Account, at: Date): void {
  if (keys.filter((key) => !isDefaultKey(key) && isValid(key, at)).length <= furtherKeysMax) return;
  const message = `The account has ${furtherKeysMax} further keys that are valid, and can have no more. Revoke one first.`;
  throw new ApiError('CONFLICT', message);
}

/** Notes since when the key has had a limit of the month: in that month its use from before the limit counts, too. */
function withMonth(key: Key, before: KeyLimits | undefined, at: Date): Key {
  if (key.limits?.tokensPerMonth === undefined) return key;
  const since = before?.tokensPerMonth === undefined ? undefined : before.monthLimitedSince;
  return { ...key, limits: { ...key.limits, monthLimitedSince: since ?? monthOf(at) } };
}

function withoutUndefined(key: Key): Key {
  return Object.fromEntries(Object.entries(key).filter(([, value]) => value !== undefined)) as Key; // a field is only left out
}
