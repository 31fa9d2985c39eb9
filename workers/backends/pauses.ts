import { repeatWhile } from '../../shared/concurrency/repeat-while.ts';
import type { BackendPauses } from '../../shared/fleet/backend-pauses.ts';
import type { PauseKind } from '../../shared/fleet/note-process.ts';
import type { Log } from '../../shared/process/log.ts';
import type { BackendNews, Pause } from '../fleet-limits/renew-shares.ts';

/** `full`: it is busy, and has not said for how long. */
type Kind = PauseKind | 'full';

/** `full` doubles up to `fullMax`. The others are fixed. */
const pauseMs = { full: 250, fullMax: 2_000, askedMax: 60_000, loading: 1_000, account: 30_000 };
/** It stays full if the first calls after a pause find it busy. */
const staysFullMs = 250;

/**
 * Pauses of backends, of this worker and of the fleet (contract.md#ms2-busy-and-loading). A pause is for all models of a backend.
 */
export function createPauses(deps: {
  now: () => number;
  onNews: (backend: string) => void;
  /** Whether this worker does not have the API key of the backend: then the pause lasts, and other workers do not take it over. */
  lacksKey?: (backend: string) => boolean;
  /** The backends that this worker may call. */
  called?: () => Iterable<string>;
}) {
  const { now, onNews, lacksKey = () => false, called = () => [] } = deps;
  const pauses = new Map<string, Map<Kind, number>>();
  const news = createNews(now);
  const steps = createSteps(now);

  function pause(backend: string, { kind, ms }: { kind: Kind; ms: number }): void {
    const ofBackend = pauses.get(backend) ?? new Map<Kind, number>();
    ofBackend.set(kind, Math.max(ofBackend.get(kind) ?? 0, now() + ms));
    pauses.set(backend, ofBackend);
  }

  function isPaused(backend: string, kind: Kind): boolean {
    return (pauses.get(backend)?.get(kind) ?? 0) > now();
  }

  function leftOf(backend: string): Pause[] {
    const known = new Map(pauses.get(backend));
    if (lacksKey(backend)) known.set('account', now() + pauseMs.account);
    const left = [...known].map(([kind, until]) => ({
      kind: kind === 'full' ? ('busy' as const) : kind,
      leftMs: until - now(),
    }));
    return left.filter(({ leftMs }) => leftMs > 0);
  }

  function tell(backend: string, learned: LearnedPause): void {
    news.add(backend, learned);
    onNews(backend);
  }

  function learn(backend: string, learned: LearnedPause): void {
    pause(backend, learned);
    tell(backend, learned);
  }

  return {
    /**
     * The backend is busy. `retryAfterMs`: for as long as it says, else longer each time while it stays busy. `calls`: those of this worker
     * in flight, with the one that it refused.
     */
    busy(backend: string, { retryAfterMs, calls }: { retryAfterMs: number | undefined; calls: number }): void {
      const ms = Math.min(retryAfterMs ?? 0, pauseMs.askedMax);
      if (retryAfterMs !== undefined) {
        pauses.get(backend)?.delete('full');
        pause(backend, { kind: 'busy', ms });
      } else if (!isPaused(backend, 'busy')) pause(backend, { kind: 'full', ms: steps.nextMs(backend) });
      // The other workers need no pause of a backend whose room they know.
      tell(backend, { kind: 'busy', ms, calls });
    },
    /** A call there was answered, so it has room for another one: if it is busy and has asked for no time, the pause ends. */
    answered(backend: string): void {
      steps.forget(backend);
      pauses.get(backend)?.delete('full');
    },
    loading: (backend: string): void => learn(backend, { kind: 'loading', ms: pauseMs.loading }),
    /** It refuses the operator's own account. */
    refusesAccount: (backend: string): void => learn(backend, { kind: 'account', ms: pauseMs.account }),
    /** Requests wait for its end. */
    delays: (backend: string): boolean =>
      (['busy', 'full', 'loading'] as const).some((kind) => isPaused(backend, kind)),
    /** It is not called, as if its breaker were open. */
    refuses: (backend: string): boolean =>
      isPaused(backend, 'account') || isPaused(backend, 'operator') || lacksKey(backend),
    /** The longest that is left. */
    of: (backend: string): Pause | undefined => leftOf(backend).toSorted((one, other) => other.leftMs - one.leftMs)[0],
    /** All that last now. */
    all(): (Pause & { backend: string })[] {
      const names = new Set([...pauses.keys(), ...called()]);
      return [...names].flatMap((backend) => leftOf(backend).map((left) => ({ backend, ...left })));
    },
    /** An operator has paused the backend for this time from now on; 0: not. True if that is a change. */
    setByOperator(backend: string, leftMs: number): boolean {
      const wasPaused = isPaused(backend, 'operator');
      pauses.get(backend)?.delete('operator');
      if (leftMs > 0) pause(backend, { kind: 'operator', ms: leftMs });
      return wasPaused !== leftMs > 0;
    },
    /** Takes over what the fleet knows. */
    merge: (backend: string, { kind, leftMs }: Pause): void => pause(backend, { kind, ms: leftMs }),
    /** What this worker has learned of a backend since the last time. */
    takeNews: news.take,
    /** The fleet does not know it yet. */
    keepNews(backend: string, { busyCalls, pause }: BackendNews): void {
      if (busyCalls === 0 && pause === undefined) return;
      const calls = busyCalls > 0 ? { calls: busyCalls } : {};
      news.add(backend, { kind: pause?.kind ?? 'busy', ms: pause?.leftMs ?? 0, ...calls });
    },
  };
}

export type Pauses = ReturnType<typeof createPauses>;

/** `calls`: undefined if it was not busy. */
type LearnedPause = { kind: PauseKind; ms: number; calls?: number };

/** What the fleet is to know: the longest pause, and the fewest calls at which the backend was busy. */
function createNews(now: () => number) {
  const news = new Map<string, { busyCalls: number; kind: PauseKind; until: number }>();
  return {
    add(backend: string, { kind, ms, calls }: LearnedPause): void {
      const known = news.get(backend);
      const counts = [known?.busyCalls, calls].filter((count) => count !== undefined && count > 0) as number[]; // as filtered
      const until = now() + ms;
      const isLonger = known === undefined || until > known.until;
      news.set(backend, {
        ...(isLonger ? { kind, until } : known),
        busyCalls: counts.length > 0 ? Math.min(...counts) : 0,
      });
    },
    take(backend: string): BackendNews {
      const known = news.get(backend);
      news.delete(backend);
      if (known === undefined) return { busyCalls: 0, pause: undefined };
      const leftMs = known.until - now();
      return { busyCalls: known.busyCalls, pause: leftMs > 0 ? { kind: known.kind, leftMs } : undefined };
    },
  };
}

/** The times of pauses for which a backend has not asked. */
function createSteps(now: () => number) {
  const steps = new Map<string, { ms: number; until: number }>();
  return {
    /** Calls that were refused together are one sign. */
    nextMs(backend: string): number {
      const step = steps.get(backend);
      if (step !== undefined && now() < step.until) return step.until - now();
      const staysFull = step !== undefined && now() < step.until + staysFullMs;
      const ms = staysFull ? Math.min(2 * step.ms, pauseMs.fullMax) : pauseMs.full;
      steps.set(backend, { ms, until: now() + ms });
      return ms;
    },
    forget: (backend: string) => void steps.delete(backend),
  };
}

const lookEveryMs = 1_000;

/** Takes over the pauses that operators have set. */
export function followOperatorPauses(deps: {
  backendPauses: Pick<BackendPauses, 'read'>;
  /** The names of the backends that this process may call. */
  called: () => readonly string[];
  /** Milliseconds that are left; 0 if the backend is not paused. */
  set: (backend: string, leftMs: number) => void;
  log: Pick<Log, 'debug'>;
  /** Milliseconds, close to those of Redis's clock. */
  wallClock?: () => number;
}) {
  const { backendPauses, called, set, log, wallClock = Date.now } = deps;
  let followed = new Set<string>();

  /** Reads them now. Does not fail: without an answer of Redis, what is known stays until its end. */
  async function look(): Promise<void> {
    try {
      const names = new Set(called());
      for (const name of followed) if (!names.has(name)) set(name, 0);
      followed = names;
      // While Redis has it, a pause has not ended, whatever this clock says.
      for (const [backend, pause] of await backendPauses.read([...names]))
        set(backend, pause === null ? 0 : Math.max(2 * lookEveryMs, pause.until - wallClock()));
    } catch (error) {
      log.debug({ err: error }, 'cannot determine which backends operators have paused');
    }
  }

  const looking = repeatWhile({ everyMs: lookEveryMs, work: look, isNeeded: () => true, onFailure() {} });
  looking.begin();
  return { look, [Symbol.dispose]: looking[Symbol.dispose] };
}
