import { isDeepStrictEqual } from 'node:util';
import { changed, newAccount } from '../../shared/account-changes/change-settings.ts';
import { ApiError } from '../../shared/errors.ts';
import {
  type Account,
  type ActiveKey,
  type Change,
  monthOf,
  type NewKey,
} from '../../shared/store/accounts/account.ts';
import type { Decision } from '../../shared/store/accounts/decide.ts';
import {
  type EndedFurtherKey,
  type FurtherKey,
  type KeyFields,
  type KeyLimits,
  validUntil,
} from '../../shared/store/accounts/further-key.ts';
import { endKey, replacedBy, withKeyCreated } from './account-changes.ts';

/** Each takes memory in every caller's account, and a read of an account reads all of them. */
export const furtherKeysMax = 100;
const expiredKept = 100;
const endedKept = 100;

/** The default key has no name of its own. */
export const defaultKeyName = 'default';

/** Any key of an account. */
export type KnownKey = { kind: 'default'; key: ActiveKey } | FurtherKnownKey;
export type FurtherKnownKey = { kind: 'further'; key: FurtherKey } | { kind: 'ended'; key: EndedFurtherKey };

/*
 * The states of a further key (contract.md#i2-routes-of-further-keys). A key that has expired can be given a later end; all other ends are
 * final. Every change first moves the keys whose grace is over to those that have ended.
 *
 *   none     create   active
 *   active   change   active, or expired once its end has come
 *   active   rotate   rotated, valid until its grace is over, and a new key is active
 *   active   revoke   revoked
 *   rotated  revoke   revoked
 */

/** Returns the default key, then further keys, then those of both that have ended, latest first: at most 401. */
export function keysOf({ key, ...account }: Account): KnownKey[] {
  return [...(key === undefined ? [] : [{ kind: 'default', key } as const]), ...furtherKeysOf(account)];
}

/** The same without the default key. */
export function furtherKeysOf(
  account: Pick<Account, 'furtherKeys' | 'endedFurtherKeys' | 'endedKeys'>,
): FurtherKnownKey[] {
  const { furtherKeys, endedFurtherKeys, endedKeys } = account;
  const known = new Set([...furtherKeys, ...endedFurtherKeys].map(({ id }) => id));
  const endedDefaults = endedKeys.filter(({ id }) => !known.has(id));
  const ended = [
    ...endedFurtherKeys,
    ...endedDefaults.map(({ plan: _, ...each }) => ({ ...each, name: defaultKeyName })),
  ];
  return [
    ...furtherKeys.map((each) => ({ kind: 'further', key: each }) as const),
    ...ended
      .toSorted((one, other) => other.endedAt.getTime() - one.endedAt.getTime())
      .map((each) => ({ kind: 'ended', key: each }) as const),
  ];
}

/** Finds a key by its id; undefined if the account has no such key. */
export function findKey(account: Account | undefined, id: string): KnownKey | undefined {
  return account && keysOf(account).find(({ key }) => key.id === id);
}

type Creation = { account: string; plan: string; key: NewKey; fields: KeyFields };

/**
 * Creates an unknown account with `plan`. Fails with `CONFLICT` if the account has 100 further keys that are valid, and as
 * `withKeyCreated` does.
 */
export function createFurtherKey({ account: id, plan, key, fields }: Creation) {
  return (known: Account | undefined): Decision<Account> => {
    const at = key.createdAt;
    const before = withKeyCreated(withoutEnded(known ?? newAccount(id, plan, at), at), at);
    const furtherKeys = [...before.furtherKeys, withMonth(withoutUndefined({ ...key, ...fields }), undefined, at)];
    const next = changedBy({ ...before, furtherKeys }, { at, keyMinted: key.id });
    requireRoom(next, at);
    return { result: next, next };
  };
}

/**
 * Replaces these fields; one that is undefined is removed. Undefined if there is no such key. Fails with `CONFLICT` if it cannot change.
 */
export function changeFurtherKey({ id, fields, at }: { id: string; fields: Partial<KeyFields>; at: Date }) {
  return (known: Account | undefined): Decision<Account | undefined> => {
    const found = findLive(known, id, at);
    if (known === undefined || found === undefined) return { result: undefined };
    if (found.kind === 'default')
      throw new ApiError('CONFLICT', 'The default key has no settings. Create a further key.');
    const key = withMonth(withoutUndefined({ ...found.key, ...fields }), found.key.limits, at);
    if (isDeepStrictEqual(key, found.key)) return { result: known };
    const before = withoutEnded(known, at);
    const furtherKeys = before.furtherKeys.map((each) => (each.id === id ? key : each));
    const next = changedBy({ ...before, furtherKeys }, { at, keyChanged: id });
    requireRoom(next, at);
    return { result: next, next };
  };
}

type Rotation = { id: string; key: NewKey; graceMs: number };

/**
 * Gives the key a successor with the same settings; the key itself stays valid for `graceMs`, but not beyond its own end. Undefined if
 * there is no such key. Fails with `CONFLICT` for a key that is no longer active.
 */
export function rotateKeyById({ id, key, graceMs }: Rotation) {
  return (known: Account | undefined): Decision<Account | undefined> => {
    const at = key.createdAt;
    const found = findLive(known, id, at);
    if (known === undefined || found === undefined) return { result: undefined };
    const rotated =
      found.kind === 'default' ? rotateDefault(known, found.key, key) : rotateFurther(known, found.key, key);
    const { account, left } = rotated;
    const endsAt = new Date(at.getTime() + graceMs);
    const kept = { ...account, furtherKeys: [...account.furtherKeys, { ...left, endsAt }] };
    const next = changedBy(withKeyCreated(withoutEnded(kept, at), at), { at, keyRotated: { from: id, to: key.id } });
    requireRoom(next, at);
    return { result: next, next };
  };
}

/** The account without the old default key, and that key as a further one. */
function rotateDefault(account: Account, old: ActiveKey, key: NewKey) {
  const { plan: _, ...fields } = old;
  const ended = endKey({ ...account, key: old }, 'rotated', key.createdAt);
  const next = { ...ended, key: { ...key, plan: account.plan, replaced: replacedBy(old) } };
  return { account: next, left: { ...fields, name: defaultKeyName } };
}

function rotateFurther(account: Account, old: FurtherKey, key: NewKey) {
  if (old.endsAt !== undefined) throw keyEnded();
  if (isOver(old.expiresAt, key.createdAt)) {
    throw new ApiError('CONFLICT', 'This key has expired. Give it a later end, or create another one.');
  }
  const { lastUsedAt: _, ...fields } = old;
  const successor = { ...fields, ...key, replaced: replacedBy(old) };
  const furtherKeys = account.furtherKeys.map((each) => (each.id === old.id ? successor : each));
  return { account: { ...account, furtherKeys }, left: old };
}

/** `by`: the operator who revokes it, unless it is the account itself. */
type Revocation = { id: string; at: Date } & Partial<Pick<Change, 'by' | 'origin'>>;

/** The key stops working at once. A key that has ended already stays as it is. Undefined if there is no such key. */
export function revokeKeyById({ id, at, ...by }: Revocation) {
  return (known: Account | undefined): Decision<Account | undefined> => {
    const found = findKey(known, id);
    if (known === undefined || found === undefined) return { result: undefined };
    if (found.kind === 'ended' || (found.kind === 'further' && isOver(found.key.endsAt, at))) return { result: known };
    const ended =
      found.kind === 'default'
        ? endKey({ ...known, key: found.key }, 'revoked', at)
        : endFurther(known, found.key, 'revoked', at);
    const next = changedBy(withoutEnded(ended, at), { at, keyRevoked: id, ...by });
    return { result: next, next };
  };
}

/** Returns the ids of a key and of the keys that it has replaced, without those that are still valid. */
export function endedWith(account: Account, id: string, at: Date): string[] {
  const found = findKey(account, id);
  const replaced = found?.key.replaced ?? [];
  const valid = account.furtherKeys.filter((key) => !isOver(validUntil(key), at)).map((key) => key.id);
  return [id, ...replaced].filter((each) => !valid.includes(each));
}

function findLive(account: Account | undefined, id: string, at: Date) {
  const found = findKey(account, id);
  if (found === undefined) return undefined;
  if (found.kind === 'ended' || (found.kind === 'further' && isOver(found.key.endsAt, at))) throw keyEnded();
  return found;
}

function keyEnded(): ApiError {
  return new ApiError('CONFLICT', 'This key was rotated or revoked, and cannot change any more.');
}

function isOver(end: Date | undefined, at: Date): boolean {
  return end !== undefined && end <= at;
}

function requireRoom({ furtherKeys }: Account, at: Date): void {
  const valid = furtherKeys.filter((key) => !isOver(validUntil(key), at));
  if (valid.length <= furtherKeysMax) return;
  const message = `The account has ${furtherKeysMax} further keys that are valid, and can have no more. Revoke one first.`;
  throw new ApiError('CONFLICT', message);
}

/** Ends the keys whose grace is over, and the oldest of many that have expired. */
function withoutEnded(account: Account, at: Date): Account {
  const expired = account.furtherKeys.filter(({ expiresAt, endsAt }) => endsAt === undefined && isOver(expiresAt, at));
  const dropped = new Set(expired.slice(0, Math.max(0, expired.length - expiredKept)));
  return account.furtherKeys.reduce((next, key) => {
    if (isOver(key.endsAt, at)) return endFurther(next, key, 'rotated', key.endsAt ?? at);
    return dropped.has(key) ? endFurther(next, key, 'expired', key.expiresAt ?? at) : next;
  }, account);
}

function endFurther(account: Account, key: FurtherKey, state: EndedFurtherKey['state'], endedAt: Date): Account {
  const furtherKeys = account.furtherKeys.filter(({ id }) => id !== key.id);
  const { hash: _, endsAt: __, ...ended } = key;
  const endedFurtherKeys = [{ ...ended, state, endedAt }, ...account.endedFurtherKeys].slice(0, endedKept);
  return { ...account, furtherKeys, endedFurtherKeys };
}

function changedBy(account: Account, change: Omit<Change, 'by'> & Partial<Pick<Change, 'by'>>): Account {
  return changed(account, { by: account.id, ...change });
}

/** Notes since when the key has had a limit of the month: in that month its use from before the limit counts, too. */
function withMonth(key: FurtherKey, before: KeyLimits | undefined, at: Date): FurtherKey {
  if (key.limits?.tokensPerMonth === undefined) return key;
  const since = before?.tokensPerMonth === undefined ? undefined : before.monthLimitedSince;
  return { ...key, limits: { ...key.limits, monthLimitedSince: since ?? monthOf(at) } };
}

function withoutUndefined(key: FurtherKey): FurtherKey {
  return Object.fromEntries(Object.entries(key).filter(([, value]) => value !== undefined)) as FurtherKey;
}
