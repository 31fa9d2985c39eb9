import type { Backend } from '../../shared/plan-file/plan-file.ts';
import type { BackendHealth, CallOutcome } from './backend-health.ts';

/** The slot of one call of a backend, held from before the call until it has ended. */
export interface Slot {
  name: string;
  backend: Backend;
  /** The backend answers. */
  firstToken(): void;
  /** Only the first call has an effect. `retryAfterMs`: how long the backend asks not to be called. */
  end(outcome: CallOutcome, retryAfterMs?: number): void;
}

/** A slot for a job that is not known yet. */
export interface Reservation {
  /**
   * Returns the slot, for a call that is made now; once. Undefined, and released, if the backend may no longer be called, or if the slot
   * was reserved for longer than a job needs to begin.
   */
  use(): Slot | undefined;
  /** No effect after it was used. */
  release(): void;
}

/** A job begins within milliseconds, unless Redis or the store is slow. After this time, other jobs get the slot. */
const reservedMsMax = 1_000;

export function createReservation({
  name,
  backend,
  health,
  mayCall,
  onUse,
  onFree,
}: {
  name: string;
  backend: Backend;
  health: BackendHealth;
  /** Whether the backend may be called now. */
  mayCall: () => boolean;
  onUse: () => void;
  /** The slot is free again; called once. */
  onFree: () => void;
}): Reservation {
  let state: 'reserved' | 'used' | 'free' = 'reserved';
  const releasing = setTimeout(release, reservedMsMax);

  function free(): void {
    state = 'free';
    clearTimeout(releasing);
    onFree();
  }

  function release(): void {
    if (state === 'reserved') free();
  }

  return {
    use() {
      if (state !== 'reserved') return undefined;
      if (!mayCall()) {
        free();
        return undefined;
      }
      state = 'used';
      clearTimeout(releasing);
      onUse();
      const call = health.begin();
      return {
        name,
        backend,
        firstToken: call.firstToken,
        end(outcome, retryAfterMs = 0) {
          if (state !== 'used') return;
          call.end(outcome, retryAfterMs);
          free();
        },
      };
    },
    release,
  };
}
