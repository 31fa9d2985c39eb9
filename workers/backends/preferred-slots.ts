import { within } from '../../shared/concurrency/shutdown.ts';
import type { Lane } from '../../shared/redis/keys.ts';
import type { Candidate } from './choose-backend.ts';
import { type Preference, preferBackend } from './prefer-backend.ts';
import type { createReserveAt, Slot } from './reservation.ts';

/** `affinityKeys`: the deepest last. */
type KeyedAsk = { model: string; lane: Lane; holder: string; affinityKeys?: readonly string[] | undefined };

/** Slots of the backends that the keys of requests choose (contract.md#af2-choice-by-keys). */
export function createPreferredSlots<Asked extends KeyedAsk>({
  candidatesOf,
  reserveAt,
  onHungry,
  onPreferred,
}: {
  candidatesOf: (ask: Asked) => readonly Candidate[];
  reserveAt: ReturnType<typeof createReserveAt>;
  /** A larger share would have been used. */
  onHungry: (backends: readonly string[]) => void;
  onPreferred: (preference: Preference, model: string) => void;
}) {
  let renewed = Promise.withResolvers<void>();

  function preferenceOf(ask: Asked, reserved?: string): Preference {
    const candidates = candidatesOf(ask).map((each) => (each.name === reserved ? withoutOneCall(each) : each));
    return preferBackend(ask.affinityKeys ?? [], candidates);
  }

  return {
    /** The shares of this worker were renewed. */
    sharesChanged(): void {
      renewed.resolve();
      renewed = Promise.withResolvers();
    },
    /** Waits while the share of the first choice is renewed. */
    async settle(ask: Asked, reserved: string): Promise<void> {
      const isRenewed = () => preferenceOf(ask, reserved).missed?.reason !== 'renewal';
      for (let waits = 0; waits < renewalWaits.max && !isRenewed(); waits++)
        await within(renewalWaits.ms, renewed.promise);
    },
    /** A slot of the backend that the keys of the request choose; undefined if they choose none, or the one that is reserved. */
    take(ask: Asked, reserved?: string): Slot | undefined {
      if (!hasKeys(ask)) return undefined;
      const preference = preferenceOf(ask, reserved);
      const { choice, missed } = preference;
      if (missed?.reason === 'room') onHungry([missed.name]);
      onPreferred(preference, ask.model);
      if (choice === undefined || choice.name === reserved) return undefined;
      return reserveAt(choice.name, ask)?.use(ask.holder);
    },
  };
}

/** A renewal takes a round trip of Redis. In a cluster, each backend has its own. */
const renewalWaits = { ms: 25, max: 4 };

export function hasKeys({ affinityKeys = [] }: Pick<KeyedAsk, 'affinityKeys'>): boolean {
  return affinityKeys.length > 0;
}

function withoutOneCall(candidate: Candidate): Candidate {
  return { ...candidate, inFlight: candidate.inFlight - 1, fleetCalls: candidate.fleetCalls - 1 };
}
