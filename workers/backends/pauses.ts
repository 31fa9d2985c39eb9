/** Why a backend is not called for a while, although it may be well (contract.md#ms2-busy-and-loading). */
export type PauseKind = 'busy' | 'loading' | 'account' | 'operator';

export type Pause = { kind: PauseKind; leftMs: number };

/** Pauses of backends, of this worker and of the fleet. A pause is for all models of a backend. */
export interface Pauses {
  /** The backend is busy. `retryAfterMs`: for as long as it says, else longer each time while it stays busy. */
  busy(backend: string, retryAfterMs: number | undefined): void;
  loading(backend: string): void;
  /** It refuses the operator's own account. */
  refusesAccount(backend: string): void;
  /** Requests wait for its end. */
  delays(backend: string): boolean;
  /** It is not called, as if its breaker were open. */
  refuses(backend: string): boolean;
  /** The longest that is left. */
  of(backend: string): Pause | undefined;
  /** Takes over what the fleet knows. */
  merge(backend: string, pause: Pause): void;
}

/** `busyMs` doubles up to `busyMsMax`. The others are fixed. */
export const pauseMs = { busy: 250, busyMax: 2_000, askedMax: 60_000, loading: 1_000, account: 30_000 };
/** It stays busy if it is busy again within this time after a pause. */
const staysBusyMs = 1_000;

export function createPauses(now: () => number): Pauses {
  const pauses = new Map<string, Map<PauseKind, number>>();
  const steps = new Map<string, { ms: number; until: number }>();

  function pause(backend: string, kind: PauseKind, ms: number): void {
    const ofBackend = pauses.get(backend) ?? new Map<PauseKind, number>();
    ofBackend.set(kind, Math.max(ofBackend.get(kind) ?? 0, now() + ms));
    pauses.set(backend, ofBackend);
  }

  function isPaused(backend: string, kind: PauseKind): boolean {
    return (pauses.get(backend)?.get(kind) ?? 0) > now();
  }

  /** Calls that were refused together are one sign. */
  function nextBusyMs(backend: string): number {
    const step = steps.get(backend);
    if (step !== undefined && now() < step.until) return step.until - now();
    const ms =
      step !== undefined && now() < step.until + staysBusyMs ? Math.min(2 * step.ms, pauseMs.busyMax) : pauseMs.busy;
    steps.set(backend, { ms, until: now() + ms });
    return ms;
  }

  return {
    busy(backend, retryAfterMs) {
      const asked = retryAfterMs === undefined ? undefined : Math.min(retryAfterMs, pauseMs.askedMax);
      pause(backend, 'busy', asked ?? nextBusyMs(backend));
    },
    loading: (backend) => pause(backend, 'loading', pauseMs.loading),
    refusesAccount: (backend) => pause(backend, 'account', pauseMs.account),
    delays: (backend) => isPaused(backend, 'busy') || isPaused(backend, 'loading'),
    refuses: (backend) => isPaused(backend, 'account') || isPaused(backend, 'operator'),
    of(backend) {
      const left = [...(pauses.get(backend) ?? [])].map(([kind, until]) => ({ kind, leftMs: until - now() }));
      return left.filter(({ leftMs }) => leftMs > 0).toSorted((one, other) => other.leftMs - one.leftMs)[0];
    },
    merge: (backend, { kind, leftMs }) => pause(backend, kind, leftMs),
  };
}
