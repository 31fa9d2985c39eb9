import type { ShownKey } from '../../routes/present-key.ts';

/** `in grace`: rotated, and still valid. `rotated`: its grace is over. */
export type ShownState = 'active' | 'in grace' | 'expired' | 'rotated' | 'revoked';
export type KeyChange = 'edit' | 'rotate' | 'revoke';

const dayMs = 86_400_000;

/** The state at this time (milliseconds): a key can reach its end while the page is open. */
export function shownState(key: ShownKey, now: number): ShownState {
  if (key.ended_at === null) {
    const restMs = restOf(key, now);
    if (key.state === 'rotated') return restMs !== undefined && restMs > 0 ? 'in grace' : 'rotated';
    if (key.state === 'active' && restMs !== undefined && restMs <= 0) return 'expired';
  }
  return key.state;
}

/** For how long the key can still be used, in milliseconds; undefined if it has no end. */
export function restOf({ expires_at: expiresAt, valid_until: validUntil }: ShownKey, now: number): number | undefined {
  const ends = [expiresAt, validUntil].filter((end) => end !== null);
  return ends.length === 0 ? undefined : Math.min(...ends) * 1000 - now;
}

/** The default key, then further keys by name, so that a rotated key is beside its successor; then those that have ended, latest first. */
export function sortKeys<Shown extends ShownKey>(keys: readonly Shown[]): Shown[] {
  const rankOf = (key: Shown) => (key.ended_at !== null ? 2 : key.default ? 0 : 1);
  return keys.toSorted((one, other) => {
    const byRank = rankOf(one) - rankOf(other);
    if (byRank !== 0) return byRank;
    if (one.ended_at !== null && other.ended_at !== null) return other.ended_at - one.ended_at;
    return names.compare(one.name, other.name) || other.created_at - one.created_at;
  });
}

const names = new Intl.Collator('en', { numeric: true });

/** Whether what is shown of the key changes soon: a grace is at most seven days. */
export function isEnding(key: ShownKey, now: number): boolean {
  const restMs = key.ended_at === null ? restOf(key, now) : undefined;
  return restMs !== undefined && restMs > 0 && restMs <= 7 * dayMs;
}

/** What the API can change of this key (contract.md#i2-routes-of-further-keys). */
export function possibleChanges(key: ShownKey, now: number): KeyChange[] {
  const state = shownState(key, now);
  if (key.ended_at !== null || state === 'rotated' || state === 'revoked') return [];
  return [...(key.default ? [] : (['edit'] as const)), ...(state === 'active' ? (['rotate'] as const) : []), 'revoke'];
}

export function wasUsedInTheLastDay({ last_used_at: lastUsedAt }: ShownKey, now: number): boolean {
  return lastUsedAt !== null && lastUsedAt * 1000 > now - dayMs;
}
