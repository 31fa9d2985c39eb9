import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { changed, newAccount } from '../../shared/account-changes/change-settings.ts';
import { ApiError, rateLimitExceeded } from '../../shared/errors.ts';
import type { Decision } from '../../shared/store/documents.ts';
import { type Account, type Change, type GuestSecrets, monthOf } from '../../shared/store/records/account.ts';
import {
  defaultKeyOf,
  isDefaultKey,
  isLive,
  type Key,
  type KeyFields,
  type KeyLimits,
  type NewKey,
  validUntil,
} from '../../shared/store/records/key.ts';
import { deriveKey, fingerprint, hashKey } from './api-key.ts';

/** Each takes memory in every caller's account, and a read of an account reads all of them. */
const furtherKeysMax = 100;
/** A key keeps access to what the last of the keys before it have made. */
const replacedKept = 20;
const keysCreatedPerDayMax = 1_000;
/** Each leaves an audit record. A person opens a page less often. */
const consoleKeysCreatedPerDayMax = 200;
const consoleKeyMs = 3_600_000;
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
 *   active   change         active, or expired once its end has come; not the default key, nor that of the console
 *   active   rotate         rotated, valid until its grace is over, and a new key is active; not the key of the console
 *   active   create another key of the console   revoked, or expired; only the key of the console
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
 * Creates the key of the console, which ends the one before it. It is neither one of the 100 keys nor of the 1,000 of a day
 * (contract.md#i6-key-of-the-console). Fails with `rate_limit_exceeded` beyond 200 on one day, UTC.
 */
export function createConsoleKey({ account: id, plan, key }: Creation) {
  return (known: Account | undefined): Decision<Account, Account> => {
    const at = key.createdAt;
    const account = withConsoleKeyCreated(known ?? newAccount(id, plan, at), at);
    const earlier = account.keys.filter((each) => isLive(each) && isConsoleKey(each));
    const left = earlier.map((each) =>
      isValid(each, at) ? ended(each, 'revoked', at) : ended(each, 'expired', each.expiresAt ?? at),
    );
    const created: Key = { ...key, ...consoleFields, expiresAt: new Date(at.getTime() + consoleKeyMs) };
    const keys = [...account.keys.filter((each) => !earlier.includes(each)), created, ...left];
    const keyRevoked = left.find(({ state }) => state === 'revoked')?.id;
    const change = { at, keyMinted: key.id, ...(keyRevoked !== undefined && { keyRevoked }) };
    const next = withKeys(account, keys, change);
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
    if (isConsoleKey(found)) throw consoleKeyFixed();
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
    if (isConsoleKey(old)) throw consoleKeyFixed();
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
  const bound = { max: keysCreatedPerDayMax, what: 'keys' };
  return { ...account, keysCreated: countedOnDay(account.keysCreated, at, bound) };
}

/** Counts a key of the console in the same way, up to 200. */
function withConsoleKeyCreated(account: Account, at: Date): Account {
  const bound = { max: consoleKeysCreatedPerDayMax, what: 'keys of the console' };
  return { ...account, consoleKeysCreated: countedOnDay(account.consoleKeysCreated, at, bound) };
}

function countedOnDay(
  known: Account['keysCreated'],
  at: Date,
  { max, what }: { max: number; what: string },
): { day: string; count: number } {
  const today = at.toISOString().slice(0, 10);
  // The clock of another process may already be in the next day.
  const day = known !== undefined && known.day > today ? known.day : today;
  const count = known?.day === day ? known.count : 0;
  if (count < max) return { day, count: count + 1 };
  const waitMs = Date.parse(day) + dayMs - at.getTime();
  const message = `This account has created ${max} ${what} today (UTC), and can create no more. Retry in ${waitMs} ms.`;
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

/** It is for trying requests: it uses no files and no batches. */
const consoleFields = {
  name: 'console',
  isDefault: false,
  purpose: 'console',
  state: 'active',
  files: 'none',
} as const satisfies Partial<Key>;

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

function consoleKeyFixed(): ApiError {
  return new ApiError('CONFLICT', 'The key of the console has no settings, and is not rotated. Create a further key.');
}

function isConsoleKey({ purpose }: Key): boolean {
  return purpose === 'console';
}

function requireRoom({ keys }: Account, at: Date): void {
  const further = keys.filter((key) => !isDefaultKey(key) && !isConsoleKey(key) && isValid(key, at));
  if (further.length <= furtherKeysMax) return;
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

const expiredKept = 100;
const endedKept = 100;
/** One can be made each second. */
const endedConsoleKeysKept = 20;

/** Returns the default key, then further keys, then those that have ended, latest first: at most 422. */
export function keysOf({ keys }: Pick<Account, 'keys'>): Key[] {
  const live = keys.filter(isLive);
  return [
    ...live.filter(isDefaultKey),
    ...live.filter((key) => !isDefaultKey(key)),
    ...keys.filter((key) => !isLive(key)).toReversed(),
  ];
}

/** Finds a key by its id; undefined if the account has no such key. */
export function findKey(account: Account | undefined, id: string): Key | undefined {
  return account?.keys.find((key) => key.id === id);
}

/** Returns the ids of a key and of the keys that it has replaced, without those that are still valid. */
export function endedWith(account: Account, id: string, at: Date): string[] {
  const valid = account.keys.filter((key) => isValid(key, at)).map((key) => key.id);
  return [id, ...(findKey(account, id)?.replaced ?? [])].filter((each) => !valid.includes(each));
}

function hasEnded(key: Key, at: Date): boolean {
  return !isLive(key) || isOver(key.endsAt, at);
}

function isValid(key: Key, at: Date): boolean {
  return isLive(key) && !isOver(validUntil(key), at);
}

export function isOver(end: Date | undefined, at: Date): boolean {
  return end !== undefined && end <= at;
}

type KeyChange = Omit<Change, 'by'> & Partial<Pick<Change, 'by'>>;

function withKeys(account: Account, keys: readonly Key[], change: KeyChange): Account {
  return changed({ ...account, keys: settled(keys, change.at) }, { by: account.id, ...change });
}

/** Ends the keys whose grace is over, and the oldest of many that have expired. Drops the oldest of many that have ended. */
function settled(keys: readonly Key[], at: Date): Key[] {
  const expired = keys.filter((key) => isLive(key) && key.state === 'active' && isOver(key.expiresAt, at));
  const dropped = new Set(expired.slice(0, -expiredKept));
  const all = keys.map((key) => {
    if (isLive(key) && isOver(key.endsAt, at)) return ended(key, 'rotated', key.endsAt ?? at);
    return dropped.has(key) ? ended(key, 'expired', key.expiresAt ?? at) : key;
  });
  const endOf = ({ endedAt }: Key) => endedAt?.getTime() ?? 0;
  const over = all.filter((key) => !isLive(key)).toSorted((one, other) => endOf(one) - endOf(other));
  const isKept = (key: Key, index: number) => {
    const { isDefault, purpose } = key;
    const later = over.slice(index + 1).filter((each) => each.isDefault === isDefault && each.purpose === purpose);
    return later.length < (isConsoleKey(key) ? endedConsoleKeysKept : endedKept);
  };
  return [...all.filter(isLive), ...over.filter(isKept)];
}

/** A default key that ends knows the plan that the account had. */
function leaving(account: Account, key: Key): Key {
  return key.isDefault ? { plan: account.plan, ...key } : key;
}

function ended({ hash: _, endsAt: __, ...key }: Key, state: Key['state'], endedAt: Date): Key {
  return { ...key, state, endedAt };
}

/** Of each kind of secret, the first one mints, and keys of the others are accepted. */
export function createGuestKeys(deps: { secrets: readonly string[]; peppers: readonly string[] }) {
  const secrets = new Map(deps.secrets.map((secret) => [fingerprint(secret), secret]));
  const peppers = new Set(deps.peppers.map(fingerprint));
  const [firstSecret = '', pepper = ''] = [deps.secrets[0], deps.peppers[0]];

  return {
    /** The account of the device: `device:` and the SHA-256 of its id; the id itself is not stored. */
    accountOf: (deviceId: string): string => `device:${createHash('sha256').update(deviceId).digest('hex')}`,
    /**
     * Mints a key, with its hash and the fingerprints of the secrets used. A device that has a key, by `made`, keeps it while its secret is
     * in use.
     */
    mint(deviceId: string, made?: GuestSecrets): { key: string; hash: string; guest: GuestSecrets } {
      const secret = secrets.get(made?.secret ?? '') ?? firstSecret;
      const key = deriveKey(deviceId, secret);
      return { key, hash: hashKey(key, pepper), guest: { secret: fingerprint(secret), pepper: fingerprint(pepper) } };
    },
    /** Returns the key that was made with these secrets; throws if the secret is no longer in use. */
    remake(deviceId: string, made: GuestSecrets): string {
      const secret = secrets.get(made.secret);
      if (secret === undefined) throw new Error('a guest key was made with a secret that is not in use');
      return deriveKey(deviceId, secret);
    },
    /** Whether both secrets are still configured; a key made with a removed secret is no longer accepted. */
    inUse: (made: GuestSecrets): boolean => secrets.has(made.secret) && peppers.has(made.pepper),
    /** Identifies all configured secrets, in order. */
    secretsInUse: fingerprint([...deps.peppers, ...deps.secrets].join('\0')),
  };
}

/** Derives the keys of devices; no I/O (contract.md#c11-guest-keys). */
export type GuestKeys = ReturnType<typeof createGuestKeys>;
