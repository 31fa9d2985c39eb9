import { setTimeout as sleep } from 'node:timers/promises';
import CircuitBreaker from 'opossum';
import type { Evidence } from './evidence.ts';

/** `open`: not called. `half-open`: the next call is the probe. `probing`: the probe is in flight. */
export type BreakerState = 'closed' | 'open' | 'half-open' | 'probing';

/** The outcome of one call. It has no effect if the breaker has changed since the call began. */
export interface WatchedCall {
  /** The backend has answered, or refused the request as invalid. */
  succeeded(): void;
  /** The call has failed, also after it was answered: a stream that broke off. */
  failed(): void;
  /** The backend is well, and did not serve the request: it is busy, or does not offer the route. Only a probe learns from that. */
  alive(): void;
  /** The call ended before it could show anything, because the client left. After an abandoned probe the breaker opens again. */
  abandoned(): void;
  /** The call has failed, perhaps through its own request. After such a probe the next call is one. */
  unproven(): void;
}

/** This many failures in a row open the breaker, however long each of them took. */
const failuresInARowMax = 5;
/** A call counts at its first token and at its failure, so a backend whose streams always break off fails at half of its counts. */
const failedPercentMax = 40;
const windowMs = 20_000;
const callsInWindowMin = 5;
/** After about this time an open breaker lets a call through. */
export const probeAfterMs = 5_000;

const options = {
  timeout: false,
  errorThresholdPercentage: failedPercentMax,
  volumeThreshold: callsInWindowMin,
  rollingCountTimeout: windowMs,
  rollingCountBuckets: 10,
  rollingPercentilesEnabled: false,
  enableSnapshots: false,
} as const;

/**
 * The breaker of one backend for one model: an opossum breaker that gets each outcome when it is known. A call counts only from then on,
 * so slow failures weigh as much as fast ones, and calls in flight do not hide them (contract.md#q2-breakers,
 * decisions.md#opossum-records-outcomes). Half-open, it lets one call through and watches it from its start. When it closes, it forgets
 * earlier outcomes.
 */
export function createBreaker(deps: {
  /** A probe without an answer after this time, in milliseconds, counts as failed. If it answers later, that counts. */
  probeMs: () => number;
  onChange?: (state: BreakerState) => void;
  random?: () => number;
  resetMs?: number;
}) {
  const { probeMs, onChange = () => {}, random = Math.random, resetMs = probeAfterMs } = deps;
  // Not all processes at the same moment.
  const circuit = createCircuit(resetMs * (0.8 + 0.4 * random()), change);
  let failuresInARow = 0;
  /** How often the breaker has changed. */
  let era = 0;
  let isProbing = false;

  function change(state: BreakerState): void {
    era++;
    isProbing = false;
    failuresInARow = 0;
    onChange(state);
  }

  function watchClosed(): WatchedCall {
    const begunIn = era;
    return {
      succeeded() {
        if (era !== begunIn) return;
        failuresInARow = 0;
        circuit.record(Promise.resolve());
      },
      failed() {
        if (era !== begunIn) return;
        circuit.record(Promise.reject(new Error('a call failed')));
        if (++failuresInARow >= failuresInARowMax) circuit.open();
      },
      alive() {},
      abandoned() {},
      unproven() {},
    };
  }

  function watchProbe(): WatchedCall {
    const begunIn = era;
    const late = setTimeout(failToProve, probeMs()).unref();
    let answered: WatchedCall | undefined;
    isProbing = true;

    function failToProve(): void {
      clearTimeout(late);
      if (answered === undefined && era === begunIn) circuit.open();
    }
    function succeed(): void {
      clearTimeout(late);
      if (circuit.state() !== 'closed') circuit.close();
      answered ??= watchClosed();
    }
    return {
      succeeded: succeed,
      alive: succeed,
      failed() {
        failToProve();
        answered?.failed();
      },
      abandoned: failToProve,
      unproven() {
        clearTimeout(late);
        if (answered === undefined && era === begunIn) isProbing = false;
      },
    };
  }

  return {
    state: (): BreakerState => (circuit.state() === 'half-open' && isProbing ? 'probing' : circuit.state()),
    /** Something else than time shows that the backend may be well: the next call is the probe. No effect unless it is open. */
    halfOpen: circuit.halfOpen,
    /** Watches a call that is about to be made. Only if the state is `closed` or `half-open`. */
    watch: (): WatchedCall => (circuit.state() === 'closed' ? watchClosed() : watchProbe()),
    [Symbol.dispose]: circuit.shutdown,
  };
}

export type Breaker = ReturnType<typeof createBreaker>;

/** An opossum circuit. It is replaced when it closes, because it would keep the failures that opened it, and open again at the next one. */
function createCircuit(resetTimeout: number, onChange: (state: BreakerState) => void) {
  let circuit = begin();
  /** It is half-open before its time has come. */
  let isEarly = false;

  function begin() {
    const begun = new CircuitBreaker((outcome: Promise<void>) => outcome, { ...options, resetTimeout });
    begun.on('open', () => onChange('open'));
    begun.on('halfOpen', () => {
      if (!isEarly) onChange('half-open');
      isEarly = false;
    });
    begun.on('close', () => {
      begun.shutdown();
      circuit = begin();
      isEarly = false;
      onChange('closed');
    });
    return begun;
  }

  function open(): void {
    // Calls of a backend can end after it has gone from the plan file.
    if (circuit.isShutdown) return;
    if (isEarly) {
      // Its time begins again.
      isEarly = false;
      circuit.shutdown();
      circuit = begin();
    }
    circuit.open();
  }

  return {
    state(): BreakerState {
      if (circuit.closed) return 'closed';
      return circuit.halfOpen || isEarly ? 'half-open' : 'open';
    },
    record(outcome: Promise<void>): void {
      // A circuit that was shut down ignores the outcome, and nothing else would handle its failure.
      outcome.catch(() => {});
      circuit.fire(outcome).catch(() => {}); // the failure that is recorded
    },
    open,
    halfOpen(): void {
      if (circuit.isShutdown || isEarly || !circuit.opened) return;
      isEarly = true;
      onChange('half-open');
    },
    close: () => void (circuit.isShutdown || circuit.close()),
    shutdown: () => circuit.shutdown(),
  };
}

const lookEveryMs = 100;
/** A later result is none. */
const lookMsMax = 250;

/**
 * Tests of a backend that could not be reached, or that failed a test, so that one that is back is called at once
 * (contract.md#q2-breakers).
 */
export function createLook(deps: {
  breaker: Pick<Breaker, 'state' | 'halfOpen'>;
  /** Asks the backend for its health: false if that fails. */
  test: () => Promise<boolean>;
  onEnd: () => void;
  now: () => number;
}) {
  const { breaker, test, onEnd, now } = deps;
  let isTesting = false;
  /** When it was last found away, unless a call that began later has failed in another way. */
  let awaySince: number | undefined;
  /** A test has said that it is well, and neither a call nor a later test has shown anything since. */
  let isClaimed = false;
  let endedAt = Number.NEGATIVE_INFINITY;

  async function look(): Promise<void> {
    isTesting = true;
    const isWell = await Promise.race([test(), sleep(lookMsMax, undefined, { ref: false })]);
    [isTesting, endedAt] = [false, now()];
    if (isWell && !isClaimed) breaker.halfOpen();
    // A late result says nothing.
    isClaimed = isWell ?? isClaimed;
    onEnd();
  }

  return {
    /** Requests wait for its result. */
    isTesting: (): boolean => isTesting,
    /** A call that began then, on the same clock, has failed. */
    noteFailure(evidence: Evidence, begunAt: number): void {
      if (evidence === 'backend') awaySince = now();
      // A call that began before, and breaks off later, has reached only what is away now.
      else if (awaySince !== undefined && begunAt >= awaySince) awaySince = undefined;
    },
    noteFailedTest(): void {
      [awaySince, isClaimed] = [now(), false];
    },
    /** A request would call the backend. */
    begin(): void {
      const state = breaker.state();
      if (state === 'closed') isClaimed = false;
      if (state !== 'open' || awaySince === undefined || isTesting || now() - endedAt < lookEveryMs) return;
      void look();
    },
  };
}
