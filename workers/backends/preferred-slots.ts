import { within } from '../../shared/concurrency/shutdown.ts';
import type { Lane } from '../../shared/redis/keys.ts';
import type { Candidate } from './choose-backend.ts';
import { type Preference, preferBackend } from './prefer-backend.ts';
import type { createReserveAt, Slot } from './reservation.ts';

/** `affinityKeys`: the deepest last. `promptTokens`: an estimate. */
type KeyedAsk = {
  model: string;
  lane: Lane;
  holder: string;
  affinityKeys?: readonly string[] | undefined;
  promptTokens?: number;
};

/** A request waits for its first choice for as long as a fast model server takes to compute its prompt, and no longer. */
const waitMsPerToken = 0.25;
const waitMsMax = 500;
/** It does not wait while most slots of the fleet are in use: the one that it has reserved would be missed. */
const usedMax = 0.75;

/** Slots of the backends that the keys of requests choose (contract.md#af2-choice-by-keys). */
export function createPreferredSlots<Asked extends KeyedAsk>({
  candidatesOf,
  reserveAt,
  onMissed,
  onPreferred,
}: {
  candidatesOf: (ask: Asked) => readonly Candidate[];
  reserveAt: ReturnType<typeof createReserveAt>;
  /** With a larger share of this backend a request would have gone there, and the fleet has room. */
  onMissed: (backend: string) => void;
  onPreferred: (preference: Preference, model: string) => void;
}) {
  let nextChange = Promise.withResolvers<void>();

  function candidatesFor(ask: Asked, reserved?: string): Candidate[] {
    return candidatesOf(ask).map((each) => (each.name === reserved ? withoutOneCall(each) : each));
  }

  /** Whether the first choice may soon have room here. Asks for a larger share of it. */
  function isWorthWaiting(ask: Asked, reserved: string): boolean {
    const candidates = candidatesFor(ask, reserved);
    const { missed } = preferBackend(ask.affinityKeys ?? [], candidates);
    if (missed === undefined || missed.reason === 'load') return false;
    if (missed.reason === 'renewal') return true;
    const first = candidates.find(({ name }) => name === missed.name);
    if (first !== undefined && first.fleetCalls < first.fleetCallsMax) onMissed(first.name);
    return usedShare(candidates) <= usedMax;
  }

  return {
    /** Slots may be free now. */
    changed(): void {
      nextChange.resolve();
      nextChange = Promise.withResolvers();
    },
    /** Waits for the first choice, while it may soon have room here. */
    async settle(ask: Asked & { signal: AbortSignal }, reserved: string): Promise<void> {
      const giveUpAt = performance.now() + Math.min(waitMsMax, (ask.promptTokens ?? 0) * waitMsPerToken);
      for (let leftMs = 0; !ask.signal.aborted && isWorthWaiting(ask, reserved); ) {
        leftMs = giveUpAt - performance.now();
        if (leftMs <= 0) return;
        await within(leftMs, nextChange.promise);
      }
    },
    /** A slot of the backend that the keys of the request choose; undefined if they choose none, or the one that is reserved. */
    take(ask: Asked, reserved?: string): Slot | undefined {
      if (!hasKeys(ask)) return undefined;
      const preference = preferBackend(ask.affinityKeys ?? [], candidatesFor(ask, reserved));
      const { choice } = preference;
      onPreferred(preference, ask.model);
      if (choice === undefined || choice.name === reserved) return undefined;
      return reserveAt(choice.name, ask)?.use(ask.holder);
    },
  };
}

export function hasKeys({ affinityKeys = [] }: Pick<KeyedAsk, 'affinityKeys'>): boolean {
  return affinityKeys.length > 0;
}

function withoutOneCall(candidate: Candidate): Candidate {
  return { ...candidate, inFlight: candidate.inFlight - 1, fleetCalls: candidate.fleetCalls - 1 };
}

/** Of the slots of the fleet, the part that is in use. */
function usedShare(candidates: readonly Candidate[]): number {
  const slots = candidates.reduce((sum, { fleetCallsMax }) => sum + fleetCallsMax, 0);
  return candidates.reduce((sum, { fleetCalls }) => sum + fleetCalls, 0) / slots;
}
