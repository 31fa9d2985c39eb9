import { hash } from 'node:crypto';
import { type Candidate, hasRoom } from './choose-backend.ts';

/** A backend that keys may choose. */
type RankedBackend = Pick<Candidate, 'name' | 'weight'>;

/**
 * What the keys of a request come to. `depth`: that of the key that decided, 1 for the deepest. `missed`: the first choice of the deepest
 * key, if it was not taken, and why: for its load in the fleet, because it has no room in this worker's share, or only while that is
 * renewed.
 */
export type Preference = {
  choice: { name: string; depth: number } | undefined;
  missed: { name: string; reason: 'load' | 'room' | 'renewal' } | undefined;
};

/** A backend may have this much more load than its part of that of all, or this many calls more. */
const loadFactor = 1.25;
const loadMargin = 4;

/**
 * The on-prem backend that has the beginning of a prompt in its cache (contract.md#af2-choice-by-keys), by the keys of its request, the
 * deepest last. Every worker comes to the same one, without asking another. The deepest key comes first. If its first choice is too busy,
 * the next shallower key chooses; undefined if none does. `candidates` do not count the request itself.
 */
export function preferBackend(keys: readonly string[], candidates: readonly Candidate[]): Preference {
  const scored = candidates.filter(
    ({ location, refuses, isDelayed, isSuspect, weight }) =>
      location === 'on-prem' && !refuses && !isDelayed && !isSuspect && weight > 0,
  );
  const partOf = createPartOf(scored);
  let missed: Preference['missed'];
  for (const [index, key] of keys.toReversed().entries()) {
    const first = firstFor(key, scored);
    if (first === undefined) break;
    const part = partOf(first);
    const isLight = first.fleetCalls < part * loadFactor || first.fleetCalls < part + loadMargin;
    if (isLight && hasRoom(first)) return { choice: { name: first.name, depth: index + 1 }, missed };
    const room = first.isRenewing ? 'renewal' : 'room';
    missed ??= { name: first.name, reason: isLight ? room : 'load' };
  }
  return { choice: undefined, missed };
}

/** The calls of the fleet that a backend would have if all had their part, by their weights. */
function createPartOf(candidates: readonly Candidate[]): (candidate: Candidate) => number {
  const calls = candidates.reduce((sum, { fleetCalls }) => sum + fleetCalls, 0);
  const weights = candidates.reduce((sum, { weight }) => sum + weight, 0);
  return ({ weight }) => (calls * weight) / weights;
}

/** Weighted rendezvous hashing: each backend gets its part of all keys, and if one leaves or comes, only keys of this one move. */
export function firstFor<Backend extends RankedBackend>(
  key: string,
  backends: readonly Backend[],
): Backend | undefined {
  let [first, highest]: [Backend | undefined, number] = [undefined, Number.NEGATIVE_INFINITY];
  for (const backend of backends) {
    const score = -backend.weight / Math.log(numberOf(`${key} ${backend.name}`));
    if (score > highest) [first, highest] = [backend, score];
  }
  return first;
}

const bits = 48;

/** A number in (0, 1), the same for the same text. */
function numberOf(text: string): number {
  return (hash('sha256', text, 'buffer').readUIntBE(0, bits / 8) + 0.5) / 2 ** bits;
}
