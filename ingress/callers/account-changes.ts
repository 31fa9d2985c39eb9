import { changed, newAccount } from '../../shared/account-changes/change-settings.ts';
import { ApiError, rateLimitExceeded } from '../../shared/errors.ts';
import type { Account, ActiveKey, EndedKey, GuestSecrets, NewKey } from '../../shared/store/accounts/account.ts';
import type { Decision } from '../../shared/store/accounts/decide.ts';

const endedKeysMax = 100;
export const keysCreatedPerDayMax = 1_000;
const dayMs = 86_400_000;
/** A key keeps access to what the last of the keys before it have made. */
const replacedKept = 20;

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
    const before = withKeyCreated(account ?? newAccount(id, plan, key.createdAt), key.createdAt);
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
    if (!hasKey(account) || !isNamed(account.key, named)) return noSuchKey(account, named);
    const ended = endKey(account, 'rotated', key.createdAt);
    const change = { at: key.createdAt, by: account.id, keyRotated: { from: account.key.id, to: key.id } };
    const successor = { ...key, plan: account.plan, replaced: replacedBy(account.key) };
    const next = changed({ ...withKeyCreated(ended, key.createdAt), key: successor }, change);
    return { result: next, next };
  };
}

/** The ended key; undefined as for `rotateKey`. */
export function revokeKey({ named, at }: { named: NamedKey; at: Date }) {
  return (account: Account | undefined): Decision<EndedKey | undefined> => {
    if (!hasKey(account) || !isNamed(account.key, named)) return noSuchKey(account, named);
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

/**
 * A removed device can return. Its versions start at the time in seconds since 1970, so that none repeats an earlier one: otherwise a stale
 * caller in the memory of an ingress would be taken for the current one.
 */
function newDevice(id: string, plan: string, createdAt: Date): Account {
  return { ...newAccount(id, plan, createdAt), version: Math.floor(createdAt.getTime() / 1000) };
}

/**
 * Counts a key that the account creates. Fails with `rate_limit_exceeded` beyond 1,000 on one day, UTC
 * (contract.md#ho4-what-an-account-creates).
 */
export function withKeyCreated(account: Account, at: Date): Account {
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

function hasKey(account: Account | undefined): account is Account & { key: ActiveKey } {
  return account?.key !== undefined;
}

/** Fails with `INVALID_KEY` for an active further key of the account, which has routes of its own. */
function noSuchKey(account: Account | undefined, named: NamedKey): Decision<undefined> {
  const further = account?.furtherKeys.find((key) => key.endsAt === undefined && isNamed(key, named));
  if (further === undefined) return { result: undefined };
  const routes = `POST /v1/keys/${further.id}/rotate and DELETE /v1/keys/${further.id}`;
  throw new ApiError('INVALID_KEY', `This is a further key of the account. Use ${routes}.`);
}

function isNamed(key: Pick<ActiveKey, 'hash' | 'display'>, named: NamedKey): boolean {
  return 'hashes' in named ? named.hashes.includes(key.hash) : named.display === key.display;
}

export function endKey(
  { key, ...account }: Account & { key: ActiveKey },
  state: EndedKey['state'],
  endedAt: Date,
): Account {
  const { id, display, createdAt, replaced } = key;
  const lastUsedAt = account.lastUse?.keyId === id ? { lastUsedAt: account.lastUse.at } : {};
  const ended = {
    id,
    display,
    plan: account.plan,
    createdAt,
    state,
    endedAt,
    ...lastUsedAt,
    ...(replaced && { replaced }),
  };
  return { ...account, endedKeys: [ended, ...account.endedKeys].slice(0, endedKeysMax) };
}

/** The ids of the keys that the successor of this key has replaced, latest first. */
export function replacedBy({ id, replaced = [] }: Pick<ActiveKey, 'id' | 'replaced'>): string[] {
  return [id, ...replaced].slice(0, replacedKept);
}
