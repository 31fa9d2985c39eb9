import type { Backend } from '../../shared/process/plan-file.ts';
import type { BackendHealth, CallOutcome } from './backend-health.ts';

/** What one call takes of a backend, from before it is made until it has ended. */
export interface Slot {
  name: string;
  backend: Backend;
  /** The backend answers. */
  firstToken(): void;
  /** Only the first word counts. `retryAfterMs`: how long the backend wants to be left alone. */
  end(outcome: CallOutcome, retryAfterMs?: number): void;
}

/** A slot for a job that is not known yet. */
export interface Reservation {
  /**
   * The slot, for a call that is made now; once. Undefined, and released, if the backend is not to be called any more, or if it was
   * reserved for longer than a job needs to begin.
   */
  use(): Slot | undefined;
  /** Of no effect once it was used. */
  release(): void;
}

/** A job begins within milliseconds, unless Redis or the store is slow: then others have the slot meanwhile. */
const reservedMsMax = 1_000;

export function createReservation({
  name,
  backend,
  as,
  mayCall,
  onUse,
  onFree,
}: {
  name: string;
  backend: Backend;
  as: BackendHealth;
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
      const call = as.begin();
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
