import type { Pause, PauseKind } from '../shares/renew-shares.ts';

/**
 * Pauses of backends, of this worker and of the fleet (contract.md#ms2-busy-and-loading). A pause is for all models of a backend.
 */
export interface Pauses {
  /**
   * The backend is busy. `retryAfterMs`: for as long as it says, else longer each time while it stays busy. `calls`: those of this worker in
   * flight, with the one that it refused.
   */
  busy(backend: string, asked: { retryAfterMs: number | undefined; calls: number }): void;
  loading(backend: string): void;
  /** It refuses the operator's own account. */
  refusesAccount(backend: string): void;
  /** Requests wait for its end. */
  delays(backend: string): boolean;
  /** It is not called, as if its breaker were open. */
  refuses(backend: string): boolean;
  /** The longest that is left. */
  of(backend: string): Pause | undefined;
  /** All that last now. */
  all(): (Pause & { backend: string })[];
  /** An operator has paused the backend for this time from now on; 0: not. True if that is a change. */
  setByOperator(backend: string, leftMs: number): boolean;
  /** Takes over what the fleet knows. */
  merge(backend: string, pause: Pause): void;
  /** What this worker has learned of a backend since the last time. */
  takeNews(backend: string): News;
}

type News = { busyCalls: number; pause: Pause | undefined };

/** `busyMs` doubles up to `busyMsMax`. The others are fixed. */
export const pauseMs = { busy: 250, busyMax: 2_000, askedMax: 60_000, loading: 1_000, account: 30_000 };
/** It stays busy if the first calls after a pause find it busy. */
const staysBusyMs = 250;

export function createPauses({ now, onNews }: { now: () => number; onNews: (backend: string) => void }): Pauses {
  const pauses = new Map<string, Map<PauseKind, number>>();
  const news = new Map<string, { busyCalls: number; kind: PauseKind; until: number }>();
  const steps = new Map<string, { ms: number; until: number }>();

  function pause(backend: string, kind: PauseKind, ms: number): void {
    const ofBackend = pauses.get(backend) ?? new Map<PauseKind, number>();
    ofBackend.set(kind, Math.max(ofBackend.get(kind) ?? 0, now() + ms));
    pauses.set(backend, ofBackend);
  }

  function isPaused(backend: string, kind: PauseKind): boolean {
    return (pauses.get(backend)?.get(kind) ?? 0) > now();
  }

  function leftOf(backend: string): Pause[] {
    const left = [...(pauses.get(backend) ?? [])].map(([kind, until]) => ({ kind, leftMs: until - now() }));
    return left.filter(({ leftMs }) => leftMs > 0);
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

  /** `calls`: undefined if it was not busy. Of several times the fewest count: the others were refused, too. */
  function learn(backend: string, learned: { kind: PauseKind; ms: number; calls?: number }): void {
    pause(backend, learned.kind, learned.ms);
    const known = news.get(backend);
    const calls = [known?.busyCalls, learned.calls].filter((count) => count !== undefined && count > 0) as number[]; // as filtered
    const { kind, until } = { kind: learned.kind, until: now() + learned.ms };
    const isLonger = known === undefined || until > known.until;
    news.set(backend, {
      ...(isLonger ? { kind, until } : known),
      busyCalls: calls.length > 0 ? Math.min(...calls) : 0,
    });
    onNews(backend);
  }

  return {
    busy(backend, { retryAfterMs, calls }) {
      const asked = retryAfterMs === undefined ? undefined : Math.min(retryAfterMs, pauseMs.askedMax);
      learn(backend, { kind: 'busy', ms: asked ?? nextBusyMs(backend), calls });
    },
    loading: (backend) => learn(backend, { kind: 'loading', ms: pauseMs.loading }),
    refusesAccount: (backend) => learn(backend, { kind: 'account', ms: pauseMs.account }),
    delays: (backend) => isPaused(backend, 'busy') || isPaused(backend, 'loading'),
    refuses: (backend) => isPaused(backend, 'account') || isPaused(backend, 'operator'),
    of: (backend) => leftOf(backend).toSorted((one, other) => other.leftMs - one.leftMs)[0],
    all: () => [...pauses.keys()].flatMap((backend) => leftOf(backend).map((left) => ({ backend, ...left }))),
    setByOperator(backend, leftMs) {
      const wasPaused = isPaused(backend, 'operator');
      pauses.get(backend)?.delete('operator');
      if (leftMs > 0) pause(backend, 'operator', leftMs);
      return wasPaused !== leftMs > 0;
    },
    merge: (backend, { kind, leftMs }) => pause(backend, kind, leftMs),
    takeNews(backend) {
      const known = news.get(backend);
      news.delete(backend);
      if (known === undefined) return { busyCalls: 0, pause: undefined };
      const leftMs = known.until - now();
      return { busyCalls: known.busyCalls, pause: leftMs > 0 ? { kind: known.kind, leftMs } : undefined };
    },
  };
}
