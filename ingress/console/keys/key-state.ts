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

/** By name, so that a rotated key is beside its successor; then those that have ended, latest first. */
export function sortKeys<Shown extends ShownKey>(keys: readonly Shown[]): Shown[] {
  const rankOf = ({ ended_at: endedAt }: Shown) => (endedAt === null ? 0 : 1);
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

/** The keys that a program can use now: not that of the console, which holds it itself. */
export function usableKeys<Shown extends ShownKey>(keys: readonly Shown[], now: number): Shown[] {
  return keys.filter((key) => key.purpose === null && ['active', 'in grace'].includes(shownState(key, now)));
}

/** Of keys that will all end with their grace, the last one to end; undefined if there are other keys, or none. */
export function lastInGrace<Shown extends ShownKey>(keys: readonly Shown[], now: number): Shown | undefined {
  const usable = usableKeys(keys, now);
  if (usable.some((key) => shownState(key, now) === 'active')) return undefined;
  return usable.toSorted((one, other) => (restOf(other, now) ?? 0) - (restOf(one, now) ?? 0))[0];
}

/** What the API can change of this key (contract.md#i2-routes-of-further-keys). */
export function possibleChanges(key: ShownKey, now: number): KeyChange[] {
  const state = shownState(key, now);
  if (key.ended_at !== null || state === 'rotated' || state === 'revoked') return [];
  if (key.purpose === 'console') return ['revoke'];
  return [...(key.default ? [] : (['edit'] as const)), ...(state === 'active' ? (['rotate'] as const) : []), 'revoke'];
}

export function wasUsedInTheLastDay({ last_used_at: lastUsedAt }: ShownKey, now: number): boolean {
  return lastUsedAt !== null && lastUsedAt * 1000 > now - dayMs;
}
