import { changed } from '../../shared/account-changes/change-settings.ts';
import type { Account, Change } from '../../shared/store/records/account.ts';
import { isDefaultKey, isLive, type Key, validUntil } from '../../shared/store/records/key.ts';

const expiredKept = 100;
const endedKept = 100;

/** Returns the default key, then further keys, then those that have ended, latest first: at most 401. */
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

export function hasEnded(key: Key, at: Date): boolean {
  return !isLive(key) || isOver(key.endsAt, at);
}

export function isValid(key: Key, at: Date): boolean {
  return isLive(key) && !isOver(validUntil(key), at);
}

export function isOver(end: Date | undefined, at: Date): boolean {
  return end !== undefined && end <= at;
}

type KeyChange = Omit<Change, 'by'> & Partial<Pick<Change, 'by'>>;

export function withKeys(account: Account, keys: readonly Key[], change: KeyChange): Account {
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
  const isKept = (key: Key, index: number) =>
    over.slice(index + 1).filter(({ isDefault }) => isDefault === key.isDefault).length < endedKept;
  return [...all.filter(isLive), ...over.filter(isKept)];
}

/** A default key that ends knows the plan that the account had. */
export function leaving(account: Account, key: Key): Key {
  return key.isDefault ? { plan: account.plan, ...key } : key;
}

export function ended({ hash: _, endsAt: __, ...key }: Key, state: Key['state'], endedAt: Date): Key {
  return { ...key, state, endedAt };
}
