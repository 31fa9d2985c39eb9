import type { Backend, PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Lane } from '../../shared/redis/keys.ts';
import type { BackendHealth, CallEnd, TrackedCall } from './backend-health.ts';
import type { BackendLoad } from './backend-load.ts';
import type { Pauses } from './pauses.ts';
import type { ServedBackends } from './served-backends.ts';

/** The slot of one call of a backend, held from before the call until it has ended. */
export interface Slot {
  name: string;
  backend: Backend;
  /** The backend answers. */
  firstToken(): void;
  /** Events with text have come. */
  noteToken(): void;
  /** Whether the backend has given tokens to other calls within this time, and none to this one: then it gets fewer calls. */
  isBusy(withinMs: number): boolean;
  /** Only the first call has an effect. */
  end(end: SlotEnd): void;
}

/**
 * How a call ended: what it shows about the health of its backend, or why it is not called for a while. `retryAfterMs`: for how long it
 * asks.
 */
export type SlotEnd = CallEnd | { outcome: 'busy'; retryAfterMs: number | undefined } | { outcome: 'loading' };

/** When the backend last gave text to any call of this process, by `performance.now()`. */
type TokenTime = { at: number };

/** A job begins within milliseconds, unless Redis or the store is slow. After this time, other jobs get the slot. */
const reservedMsMax = 1_000;

/** Reserves a slot at one backend. Undefined if the model does not have this backend. */
export function createReserveAt(deps: {
  currentPlanFile: () => Pick<PlanFile, 'backends'>;
  served: ServedBackends;
  load: BackendLoad;
  pauses: Pauses;
  areSharesValid: (backend: string) => boolean;
  /** A slot of this backend is free again. */
  onFree: (backend: string) => void;
}) {
  const { currentPlanFile, served, load, pauses, areSharesValid, onFree } = deps;
  const tokens = new Map<string, TokenTime>();

  function tokensOf(name: string): TokenTime {
    const known = tokens.get(name) ?? { at: Number.NEGATIVE_INFINITY };
    tokens.set(name, known);
    return known;
  }

  return function reserveAt(name: string, { model, lane }: { model: string; lane: Lane }): Reservation | undefined {
    const [backend, health] = [currentPlanFile().backends[name], served.ofModel(model).get(name)];
    if (backend === undefined || health === undefined) return undefined;
    load.begin(name);
    const mayBeCalled = () => !health.refuses() && !health.isProbed() && !pauses.refuses(name) && !pauses.delays(name);
    return createReservation({
      name,
      backend,
      health,
      pauses,
      tokens: tokensOf(name),
      callsInFlight: () => load.callsOf(name),
      mayCall: () => mayBeCalled() && (load.fleetLimitOf(name) === undefined || areSharesValid(name)),
      onUse() {
        if (lane === 'interactive') load.noteAsked(name);
      },
      onFree() {
        load.end(name);
        onFree(name);
      },
    });
  };
}

/** A slot for a job that is not known yet. */
function createReservation({
  name,
  backend,
  health,
  pauses,
  tokens,
  callsInFlight,
  mayCall,
  onUse,
  onFree,
}: {
  name: string;
  backend: Backend;
  health: BackendHealth;
  pauses: Pick<Pauses, 'busy' | 'answered' | 'loading' | 'refusesAccount'>;
  tokens: TokenTime;
  /** Of this process there. */
  callsInFlight: () => number;
  /** Whether the backend may be called now. */
  mayCall: () => boolean;
  onUse: () => void;
  /** The slot is free again; called once. */
  onFree: () => void;
}) {
  let state: 'reserved' | 'used' | 'free' = 'reserved';
  const releasing = setTimeout(release, reservedMsMax);
  const reservedUntil = performance.now() + reservedMsMax;

  function free(): void {
    state = 'free';
    clearTimeout(releasing);
    onFree();
  }

  /** No effect after it was used. */
  function release(): void {
    if (state === 'reserved') free();
  }

  function endCall(call: TrackedCall, end: SlotEnd): void {
    switch (end.outcome) {
      case 'busy':
        pauses.busy(name, { retryAfterMs: end.retryAfterMs, calls: callsInFlight() });
        call.end({ outcome: 'alive' });
        return;
      case 'loading':
        pauses.loading(name);
        call.end({ outcome: 'alive' });
        return;
      case 'failed': {
        const counts = call.end(end);
        if (counts && end.evidence.startsWith('operator')) pauses.refusesAccount(name);
        return;
      }
      case 'answered':
        pauses.answered(name);
        call.end(end);
        return;
      default:
        call.end(end);
    }
  }

  return {
    backend: name,
    /** How many milliseconds the slot is still reserved; 0 if it was used or is free. */
    leftMs: (): number => (state === 'reserved' ? reservedUntil - performance.now() : 0),
    /**
     * Returns the slot, for a call that is made now; once. Undefined, and released, if the backend may no longer be called, or if the slot
     * was reserved for longer than a job needs to begin.
     */
    use(holder: string): Slot | undefined {
      if (state !== 'reserved') return undefined;
      if (!mayCall()) {
        free();
        return undefined;
      }
      state = 'used';
      clearTimeout(releasing);
      onUse();
      const call = health.begin(holder);
      let hasToken = false;
      return {
        name,
        backend,
        firstToken: call.firstToken,
        noteToken() {
          hasToken = true;
          tokens.at = performance.now();
        },
        isBusy(withinMs) {
          const isBusy = !hasToken && performance.now() - tokens.at < withinMs;
          if (isBusy) pauses.busy(name, { retryAfterMs: undefined, calls: callsInFlight() });
          return isBusy;
        },
        end(end) {
          if (state !== 'used') return;
          endCall(call, end);
          free();
        },
      };
    },
    release,
  };
}

export type Reservation = ReturnType<typeof createReservation>;
