import type { Backend } from '../../shared/plan-file/plan-file.ts';
import type { Lane } from '../../shared/redis/keys.ts';

/** A backend that serves the model and was not tried yet in this pass. */
export type Candidate = {
  name: string;
  location: Backend['location'];
  /** It must not be called: its breaker is open, or it is paused for long. */
  refuses: boolean;
  /** It must not be called now, and the request may wait for it: it is busy, loads its model, or is being probed. */
  isDelayed: boolean;
  /** Requests of this account have failed there, and may be the reason (contract.md#ms3-evidence): it is asked last, one call at a time. */
  isSuspect: boolean;
  /** A call of this account is in flight there. */
  hasOwnCall: boolean;
  /** Calls of this process in flight, for any model, and how many it may have. */
  inFlight: number;
  requestsAtOnce: number;
  /** It has no room only while its share is renewed, which takes a round trip of Redis. */
  isRenewing: boolean;
  /** Calls of all workers in flight, as far as this one knows, and how many they may have together. */
  fleetCalls: number;
  fleetCallsMax: number;
  /** Its part beside other backends; 0: none. */
  weight: number;
  /** Recent time to the first token, in milliseconds; undefined if it is unknown. */
  firstTokenMs: number | undefined;
};

/** `full`: those that may be called have no room, which is no failure. `refused`: none may be called. */
export type Choice = { outcome: 'call'; name: string } | { outcome: 'full' } | { outcome: 'refused' };

/** From this number on, the better of two random candidates is taken: otherwise all processes would choose, and overload, the same one. */
const many = 5;

/**
 * Chooses the backend to call next (contract.md#q1-choice, contract.md#o5-room-for-clients). On-prem replicas come before the cloud, which
 * is called only if no replica can be. Among them, the one with the fewest calls in flight comes first, then the one with the shortest time
 * to the first token (an unknown time comes first, to find it out), then the order of the plan file. If their weights differ, each is taken
 * with its weight as its chance instead. A suspect one comes after all others.
 * A line of a batch (`lane`) waits for a full replica, and goes to the cloud only if no replica may be called. `random` is in [0, 1).
 */
export function chooseBackend(
  candidates: readonly Candidate[],
  { lane = 'interactive', random = Math.random }: { lane?: Lane; random?: () => number } = {},
): Choice {
  const called = candidates.filter(({ refuses }) => !refuses);
  const replicas = called.filter(({ location }) => location === 'on-prem');
  const willing = lane === 'batch' && replicas.length > 0 ? replicas : called;
  const free = willing.filter(hasRoom);
  const trusted = free.filter(({ isSuspect }) => !isSuspect);
  const asked = trusted.length > 0 ? trusted : free;
  const onPrem = asked.filter(({ location }) => location === 'on-prem');
  const [first] = draw(onPrem.length > 0 ? onPrem : asked, random).sort(byLoad);
  // A cloud is not called for the time of a round trip.
  const isWorthWaiting = first?.location === 'cloud' && replicas.some(waitsForShare);
  if (first !== undefined && !isWorthWaiting) return { outcome: 'call', name: first.name };
  return { outcome: willing.length > 0 ? 'full' : 'refused' };
}

export function hasRoom({ inFlight, requestsAtOnce, isDelayed, isSuspect, hasOwnCall }: Candidate): boolean {
  return inFlight < requestsAtOnce && !isDelayed && !(isSuspect && hasOwnCall);
}

function waitsForShare(candidate: Candidate): boolean {
  return candidate.isRenewing && hasRoom({ ...candidate, inFlight: 0, requestsAtOnce: 1 });
}

/** Another account may call it now: this one has a call there, and may have only one. */
export function isHeldBack({ refuses, isSuspect, hasOwnCall }: Candidate): boolean {
  return !refuses && isSuspect && hasOwnCall;
}

function draw(candidates: readonly Candidate[], random: () => number): Candidate[] {
  const [first] = candidates;
  if (candidates.some(({ weight }) => weight !== first?.weight)) return drawByWeight(candidates, random);
  if (candidates.length < many) return [...candidates];
  const one = Math.floor(random() * candidates.length);
  const other = (one + 1 + Math.floor(random() * (candidates.length - 1))) % candidates.length;
  return candidates.filter((_candidate, index) => index === one || index === other);
}

function drawByWeight(candidates: readonly Candidate[], random: () => number): Candidate[] {
  let left = random() * candidates.reduce((sum, { weight }) => sum + weight, 0);
  for (const candidate of candidates) {
    left -= candidate.weight;
    if (left < 0) return [candidate];
  }
  return candidates.slice(-1); // sums of fractions are not exact
}

function byLoad(one: Candidate, other: Candidate): number {
  return one.inFlight - other.inFlight || (one.firstTokenMs ?? 0) - (other.firstTokenMs ?? 0);
}
