import CircuitBreaker from 'opossum';

/** `open`: not to be called. `half-open`: one call, the probe, is to find out; `probing`: it is out. */
export type BreakerState = 'closed' | 'open' | 'half-open' | 'probing';

/** What came of one call. A word of one that was begun before the breaker last changed counts no more. */
export interface WatchedCall {
  /** It has answered, be it that the request was at fault. */
  succeeded(): void;
  /** It has failed, also after it had answered: a stream that broke off. */
  failed(): void;
  /** It ended before it could show anything, for the client left. Of a probe that proves nothing: the breaker opens again. */
  abandoned(): void;
}

export interface Breaker extends Disposable {
  state(): BreakerState;
  /** A call that is about to be made; only where the state is `closed` or `half-open`. */
  watch(): WatchedCall;
}

/** So many failures in a row open it, however long each of them took. */
const failuresInARowMax = 5;
/** Counted are a call's first token and its failure, so one that always breaks off half-way fails at half of its counts. */
const failedPercentMax = 40;
const windowMs = 20_000;
const callsInWindowMin = 5;
const probeAfterMs = 5_000;

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
 * Whether one backend answers for one model: an opossum breaker that is told of each outcome when it is known. A call counts
 * from then on only, so that slow failures weigh as much as fast ones and calls in flight do not hide them. Half-open it
 * takes one call, which it watches from its beginning; once closed it knows nothing of what was before.
 */
export function createBreaker(deps: {
  /** A probe that has not answered for so many milliseconds is taken to have failed; should it answer later, that counts. */
  probeMs: number;
  onChange?: (state: BreakerState) => void;
  random?: () => number;
  resetMs?: number;
}): Breaker {
  const { probeMs, onChange = () => {}, random = Math.random, resetMs = probeAfterMs } = deps;
  // Not all processes at the same moment.
  const resetTimeout = resetMs * (0.8 + 0.4 * random());
  let circuit = createCircuit();
  let failuresInARow = 0;
  /** How often it has changed. */
  let era = 0;
  let isProbing = false;

  function createCircuit() {
    const created = new CircuitBreaker((outcome: Promise<void>) => outcome, { ...options, resetTimeout });
    created.on('open', () => change('open'));
    created.on('halfOpen', () => change('half-open'));
    created.on('close', () => {
      // A circuit that closes keeps the failures that have opened it in its window, and would open at the next one.
      created.shutdown();
      circuit = createCircuit();
      change('closed');
    });
    return created;
  }

  function change(state: BreakerState): void {
    era++;
    isProbing = false;
    failuresInARow = 0;
    onChange(state);
  }

  function record(outcome: Promise<void>): void {
    // A circuit that is closed down does not look at it any more, and nobody would have seen its failure.
    outcome.catch(() => {});
    circuit.fire(outcome).catch(() => {}); // the failure that is recorded
  }

  function watchClosed(): WatchedCall {
    const begunIn = era;
    return {
      succeeded() {
        if (era !== begunIn) return;
        failuresInARow = 0;
        record(Promise.resolve());
      },
      failed() {
        if (era !== begunIn) return;
        record(Promise.reject(new Error('a call failed')));
        if (++failuresInARow >= failuresInARowMax) circuit.open();
      },
      abandoned() {},
    };
  }

  function watchProbe(): WatchedCall {
    const begunIn = era;
    const late = setTimeout(failToProve, probeMs).unref();
    let answered: WatchedCall | undefined;
    isProbing = true;

    function failToProve(): void {
      clearTimeout(late);
      if (answered === undefined && era === begunIn) circuit.open();
    }
    return {
      succeeded() {
        clearTimeout(late);
        if (!circuit.closed) circuit.close();
        answered ??= watchClosed();
      },
      failed() {
        failToProve();
        answered?.failed();
      },
      abandoned: failToProve,
    };
  }

  return {
    state() {
      if (circuit.closed) return 'closed';
      if (circuit.halfOpen) return isProbing ? 'probing' : 'half-open';
      return 'open';
    },
    watch: () => (circuit.closed ? watchClosed() : watchProbe()),
    [Symbol.dispose]: () => circuit.shutdown(),
  };
}
