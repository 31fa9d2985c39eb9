import type { Backend } from '../../shared/plan-file.ts';
import type { CallOutcome, ServedModel } from './served-model.ts';

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
  /** The slot, for a call that is made now; once. Undefined, and released, if the backend is not to be called any more. */
  use(): Slot | undefined;
  /** Of no effect once it was used. */
  release(): void;
}

type Parts = {
  name: string;
  backend: Backend;
  as: ServedModel;
  onUse: () => void;
  /** The slot is free again; called once. */
  onFree: () => void;
};

export function createReservation({ name, backend, as, onUse, onFree }: Parts): Reservation {
  let state: 'reserved' | 'used' | 'free' = 'reserved';

  function free(): void {
    state = 'free';
    onFree();
  }

  return {
    use() {
      if (state !== 'reserved') return undefined;
      if (as.refuses()) {
        free();
        return undefined;
      }
      state = 'used';
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
    release() {
      if (state === 'reserved') free();
    },
  };
}
