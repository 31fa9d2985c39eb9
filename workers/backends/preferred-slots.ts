import { aborted, within } from '../../shared/concurrency/shutdown.ts';
import type { Affinity } from '../../shared/endpoints/definition/endpoint.ts';
import type { Lane } from '../../shared/redis/keys.ts';
import type { Candidate } from './choose-backend.ts';
import { type Preference, preferBackend } from './prefer-backend.ts';
import type { createReserveAt, Reservation, Slot } from './reservation.ts';

/** `promptTokens`: an estimate. `waitMs`: the longest wait. */
type KeyedAsk = {
  model: string;
  lane: Lane;
  holder: string;
  tried: ReadonlySet<string>;
  affinity?: Affinity | undefined;
  promptTokens?: number;
  waitMs: number;
  signal: AbortSignal;
};

/** `stays`: no other backend than the reserved one is chosen. `gone`: the chosen one may no longer be called. */
type PreferredSlot = { outcome: 'moved'; slot: Slot } | { outcome: 'stays' | 'gone' };

/**
 * A request waits for its first choice for as long as a model server takes to compute its prompt, and no longer. For a renewal, which takes
 * a round trip of Redis, every request waits.
 */
const waitMsPerToken = 0.25;
const waitMsMax = 500;
/** It does not wait while most slots of the replicas are in use: the one that it has reserved would be missed. */
const usedMax = 0.75;

/** Slots of the backends that the keys of requests choose (contract.md#af2-choice-by-keys). */
export function createPreferredSlots<Asked extends KeyedAsk>({
  candidatesOf,
  reserveAt,
  onMissed,
  onPreferred,
  now,
}: {
  candidatesOf: (ask: Asked) => readonly Candidate[];
  reserveAt: ReturnType<typeof createReserveAt>;
  /** With a larger share of this backend a request would have gone there, and the fleet has room. */
  onMissed: (backend: string) => void;
  onPreferred: (preference: Preference, model: string) => void;
  now: () => number;
}) {
  const changes = createChanges();

  function preferenceOf(keys: readonly string[], ask: Asked, reservation?: Reservation): Preference {
    const reserved = reservation !== undefined && reservation.leftMs() > 0 ? reservation.backend : undefined;
    return preferBackend(
      keys,
      candidatesOf(ask).map((each) => (each.name === reserved ? withoutOneCall(each) : each)),
    );
  }

  /** The first choice of the deepest key, if it has no room here and may soon have some. */
  function awaitedBy(ask: Asked, reservation: Reservation): Candidate | undefined {
    const { missed } = preferenceOf(keysOf(ask).slice(-1), ask, reservation);
    if (missed === undefined || missed.reason === 'load') return undefined;
    const candidates = candidatesOf(ask);
    const first = candidates.find(({ name }) => name === missed.name);
    return missed.reason === 'renewal' || usedShare(candidates) <= usedMax ? first : undefined;
  }

  return {
    /** A slot of this backend may be free now; without a name, of any. */
    changed: changes.note,
    /** Waits for the first choice, while it may soon have room here. Without effect once the reservation was used or is over. */
    async settle(ask: Asked, reservation: Reservation): Promise<void> {
      const worthMs = worthOf(ask);
      const [begunAt, longestMs] = [now(), Math.min(ask.waitMs, reservation.leftMs())];
      let stopped: Promise<void> | undefined;
      let hasAsked = false;
      for (let first = awaitedBy(ask, reservation); first !== undefined; first = awaitedBy(ask, reservation)) {
        const leftMs = begunAt + Math.min(first.isRenewing ? waitMsMax : worthMs, longestMs) - now();
        // Without a call here that may end, only a larger share helps, and the renewal has brought none.
        if (leftMs <= 0 || ask.signal.aborted || (hasAsked && !first.isRenewing && first.inFlight === 0)) return;
        if (!hasAsked && !first.isRenewing) {
          hasAsked = true;
          if (hasFleetRoom(first)) onMissed(first.name);
        }
        stopped ??= aborted(ask.signal);
        if (!(await within(leftMs, Promise.race([changes.next(first.name), stopped])))) return;
      }
    },
    /** A slot of the backend that the keys of the request choose. */
    take(ask: Asked, reservation?: Reservation): PreferredSlot {
      if (!hasKeys(ask)) return { outcome: 'stays' };
      const preference = preferenceOf(keysOf(ask), ask, reservation);
      // Those that have failed elsewhere are not counted again.
      if (ask.tried.size === 0) onPreferred(preference, ask.model);
      const { choice } = preference;
      if (choice === undefined || choice.name === reservation?.backend) return { outcome: 'stays' };
      const slot = reserveAt(choice.name, ask)?.use(ask.holder);
      return slot === undefined ? { outcome: 'gone' } : { outcome: 'moved', slot };
    },
  };
}

export function hasKeys(ask: Pick<KeyedAsk, 'affinity'>): boolean {
  return keysOf(ask).length > 0;
}

function keysOf({ affinity }: Pick<KeyedAsk, 'affinity'>): readonly string[] {
  return affinity?.keys ?? [];
}

/** How many milliseconds a free slot of the first choice is worth. No backend has computed a first turn before. */
function worthOf({ affinity, promptTokens = 0 }: Pick<KeyedAsk, 'affinity' | 'promptTokens'>): number {
  return affinity?.isFirstTurn ? 0 : Math.min(waitMsMax, promptTokens * waitMsPerToken);
}

/** The next change at each backend. Those that wait for another one are not woken. */
function createChanges() {
  const waiting = new Map<string, PromiseWithResolvers<void>>();
  return {
    next(backend: string): Promise<void> {
      const known = waiting.get(backend) ?? Promise.withResolvers<void>();
      waiting.set(backend, known);
      return known.promise;
    },
    note(backend?: string): void {
      const names = backend === undefined ? [...waiting.keys()] : [backend];
      for (const name of names) {
        waiting.get(name)?.resolve();
        waiting.delete(name);
      }
    },
  };
}

function hasFleetRoom({ fleetCalls, fleetCallsMax }: Candidate): boolean {
  return Number.isFinite(fleetCallsMax) && fleetCalls < fleetCallsMax;
}

function withoutOneCall(candidate: Candidate): Candidate {
  return { ...candidate, inFlight: candidate.inFlight - 1, fleetCalls: candidate.fleetCalls - 1 };
}

/**
 * Of the slots of the replicas that may be called, the part that is in use: of the whole fleet, or here if each worker has its own limit.
 */
function usedShare(candidates: readonly Candidate[]): number {
  const replicas = candidates.filter(({ location, refuses }) => location === 'on-prem' && !refuses);
  const uses = replicas.map(({ fleetCalls, fleetCallsMax, inFlight, requestsAtOnce }) =>
    Number.isFinite(fleetCallsMax) ? [fleetCalls, fleetCallsMax] : [inFlight, requestsAtOnce],
  );
  const sum = (part: 0 | 1) => uses.reduce((total, use) => total + (use[part] ?? 0), 0);
  return sum(0) / sum(1);
}
