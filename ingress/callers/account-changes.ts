import { ApiError, validationError } from '../../shared/errors.ts';
import {
  type Account,
  type ActiveKey,
  type Change,
  type EndedKey,
  type GuestSecrets,
  type MonthTopUp,
  monthOf,
  type NewKey,
  type Origin,
} from '../../shared/store/accounts/account.ts';
import type { Decision } from '../../shared/store/accounts/decide.ts';

const endedKeysMax = 100;
const changesMax = 200;
const topUpsMadeMax = 500;
/** Sums of top-ups and usage of a month stay exact integers in JavaScript and Lua. */
const monthTopUpMax = 1e15;

/**
 * A key as named by a caller (contract.md#c5-naming-a-key): the complete key, by its hash under each pepper in use, or its first ten
 * characters.
 */
export type NamedKey = { hashes: readonly string[] } | { display: string };

/*
 * The states of a developer key: none, active, rotated, revoked (contract.md#t1-key-states). An account has at most one active key,
 * `account.key`; the others have ended. Every transition that is not listed leaves the account unchanged.
 *
 *   none    mint    active
 *   active  mint    the same key, active
 *   active  rotate  rotated, and a new key is active
 *   active  revoke  revoked
 */

/** Creates an unknown account with `plan`; a known account keeps its plan (contract.md#c13-accounts). */
export function mintKey({ account: id, plan, key }: { account: string; plan: string; key: NewKey }) {
  return (account: Account | undefined): Decision<{ minted: boolean; account: Account }> => {
    if (account?.key !== undefined) return { result: { minted: false, account } };
    const before = account ?? newAccount(id, plan, key.createdAt);
    const change = { at: key.createdAt, by: id, keyMinted: key.id };
    const next = changed({ ...before, key: { ...key, plan: before.plan } }, change);
    return { result: { minted: true, account: next }, next };
  };
}

/**
 * Undefined if the named key is not the active key of the account (contract.md#c7-atomic-rotation, contract.md#c9-what-rotation-keeps).
 */
export function rotateKey({ named, key }: { named: NamedKey; key: NewKey }) {
  return (account: Account | undefined): Decision<Account | undefined> => {
    if (!hasKey(account) || !isNamed(account.key, named)) return { result: undefined };
    const ended = endKey(account, 'rotated', key.createdAt);
    const change = { at: key.createdAt, by: account.id, keyRotated: { from: account.key.id, to: key.id } };
    const next = changed({ ...ended, key: { ...key, plan: account.plan } }, change);
    return { result: next, next };
  };
}

/** The ended key; undefined as for `rotateKey`. */
export function revokeKey({ named, at }: { named: NamedKey; at: Date }) {
  return (account: Account | undefined): Decision<EndedKey | undefined> => {
    if (!hasKey(account) || !isNamed(account.key, named)) return { result: undefined };
    const next = changed(endKey(account, 'revoked', at), { at, by: account.id, keyRevoked: account.key.id });
    return { result: next.endedKeys[0], next };
  };
}

type GuestMint = { account: string; plan: string; key: NewKey; guest: GuestSecrets };

/**
 * Mints the key of a device. A device keeps its key while the secrets that the key was made with are in use, so repeated calls have no
 * effect. If only the pepper was removed, the key stays the same under a new hash. If the secret that it is derived from was removed, the
 * key ends.
 */
export function mintGuestKey(mint: GuestMint, inUse: (guest: GuestSecrets) => boolean) {
  return (account: Account | undefined): Decision<Account> => {
    if (hasKey(account) && account.guest !== undefined && inUse(account.guest)) return { result: account };
    const { guest } = mint;
    const at = mint.key.createdAt;
    const before = account ?? newDevice(mint.account, mint.plan, at);
    const isSame = hasKey(before) && before.guest?.secret === guest.secret;
    const ended = isSame || !hasKey(before) ? before : endKey(before, 'rotated', at);
    const key = isSame ? { ...before.key, hash: mint.key.hash } : { ...mint.key, plan: before.plan };
    const next = changed({ ...ended, key, guest }, { at, by: before.id, keyMinted: key.id });
    return { result: next, next };
  };
}

/** Adds `tokens` to the allowance of the month in which it is made, once per `id`. */
export type TopUp = NonNullable<Change['topUp']>;

export type Settings = {
  plan?: string | undefined;
  overageEnabled?: boolean | undefined;
  topUp?: TopUp | undefined;
  suspended?: boolean | undefined;
};

type SettingsChange = {
  settings: Settings;
  at: Date;
  by: string;
  origin?: Origin;
  unknown?: { id: string; plan: string };
};

/**
 * Applies the settings of an operator. A value that the account already has is no change, nor is a top-up that was made before. An unknown
 * account is created from `unknown`, so that a user without a key can be suspended, too; the result is undefined if `unknown` is omitted.
 * Fails with `CONFLICT` if a top-up with the same id had another number of tokens, and with `VALIDATION_ERROR` if the top-ups of a month
 * would exceed `monthTopUpMax`.
 */
export function changeSettings({ settings, at, by, origin, unknown }: SettingsChange) {
  return (known: Account | undefined): Decision<Account | undefined> => {
    const account = known ?? (unknown && newAccount(unknown.id, unknown.plan, at));
    if (account === undefined) return { result: undefined };
    const { topUp } = settings;
    const isMade = topUp !== undefined && wasMade(account, topUp);
    const changes = { ...differences(account, settings), ...(topUp === undefined || isMade ? {} : { topUp }) };
    if (Object.keys(changes).length === 0) return { result: known };
    const next = changed(applied(account, changes, at), { at, by, ...changes, ...(origin && { origin }) });
    return { result: next, next };
  };
}

type ChangedSettings = Pick<Change, 'plan' | 'overageEnabled' | 'topUp' | 'suspended'>;

function differences(account: Account, settings: Settings): ChangedSettings {
  const { plan = account.plan, overageEnabled = account.overageEnabled, suspended = account.suspended } = settings;
  return {
    ...(plan === account.plan ? {} : { plan: { from: account.plan, to: plan } }),
    ...(overageEnabled === account.overageEnabled ? {} : { overageEnabled }),
    ...(suspended === account.suspended ? {} : { suspended }),
  };
}

function applied(account: Account, { plan, overageEnabled, topUp, suspended }: ChangedSettings, at: Date): Account {
  return {
    ...account,
    plan: plan?.to ?? account.plan,
    overageEnabled: overageEnabled ?? account.overageEnabled,
    suspended: suspended ?? account.suspended,
    ...(topUp && {
      topUp: addTopUp(account.topUp, topUp, monthOf(at)),
      topUpsMade: [topUp, ...account.topUpsMade].slice(0, topUpsMadeMax),
    }),
  };
}

function wasMade({ topUpsMade }: Account, { id, tokens }: TopUp): boolean {
  const made = topUpsMade.find((each) => each.id === id);
  if (made !== undefined && made.tokens !== tokens)
    throw new ApiError('CONFLICT', `The top-up "${id}" was made with another number of tokens.`);
  return made !== undefined;
}

/** A top-up that was decided in one month and written in the next counts in the next one, if another top-up has begun it. */
function addTopUp(before: MonthTopUp | undefined, { tokens }: TopUp, now: string): MonthTopUp {
  if (before === undefined || before.month < now) return { month: now, tokens };
  const sum = before.tokens + tokens;
  if (sum > monthTopUpMax)
    throw validationError([{ path: 'topUp.tokens', message: `a month's top-ups are at most ${monthTopUpMax}` }]);
  return { month: before.month, tokens: sum };
}

export function newAccount(id: string, plan: string, createdAt: Date): Account {
  const settings = { plan, suspended: false, overageEnabled: false, version: 0 };
  return {
    id,
    ...settings,
    createdAt,
    topUpsMade: [],
    endedKeys: [],
    furtherKeys: [],
    endedFurtherKeys: [],
    changes: [],
  };
}

/**
 * A removed device can return. Its versions start at the time in seconds since 1970, so that none repeats an earlier one: otherwise a stale
 * caller in the memory of an ingress would be taken for the current one.
 */
function newDevice(id: string, plan: string, createdAt: Date): Account {
  return { ...newAccount(id, plan, createdAt), version: Math.floor(createdAt.getTime() / 1000) };
}

export function changed(account: Account, change: Change): Account {
  return { ...account, version: account.version + 1, changes: [change, ...account.changes].slice(0, changesMax) };
}

function hasKey(account: Account | undefined): account is Account & { key: ActiveKey } {
  return account?.key !== undefined;
}

function isNamed(key: ActiveKey, named: NamedKey): boolean {
  return 'hashes' in named ? named.hashes.includes(key.hash) : named.display === key.display;
}

export function endKey(
  { key, ...account }: Account & { key: ActiveKey },
  state: EndedKey['state'],
  endedAt: Date,
): Account {
  const { id, display, createdAt } = key;
  const lastUsedAt = account.lastUse?.keyId === id ? { lastUsedAt: account.lastUse.at } : {};
  const ended = { id, display, plan: account.plan, createdAt, state, endedAt, ...lastUsedAt };
  return { ...account, endedKeys: [ended, ...account.endedKeys].slice(0, endedKeysMax) };
}
