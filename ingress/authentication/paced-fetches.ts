import type { Clock } from '../../shared/process/answer-budget.ts';

/** `asOf` is when the fetch began: a later change at the source may be missing in the value. */
export type FetchResult<Value> = { asOf: number } & ({ ok: true; value: Value } | { ok: false; failure: unknown });

interface PacedFetches<Value> extends Disposable {
  /** The fetch in progress, or else the next one, which begins as soon as the cooldown is over. Never rejects. */
  next(): Promise<FetchResult<Value>>;
  /** The last fetch if it began within the cooldown, else `next`. */
  recent(): Promise<FetchResult<Value>>;
}

type Span = { min: number; max: number };

type FetchOptions<Value> = {
  fetch: (signal: AbortSignal) => Promise<Value>;
  /** Receives the result of each fetch before those who wait for it do. */
  onFetched: (fetched: FetchResult<Value>) => void;
  /** Minimum time from the start of one fetch to the start of the next, however many callers request one. */
  cooldownMs: number;
  /** A fetch that takes longer is aborted and counts as failed. */
  fetchMsMax: number;
  /** Time after a fetch until the next one is made without a request. */
  againAfterMs: { success: Span; failure: Span };
  clock: Clock;
  /** From 0 to below 1. Jitter prevents processes that start together from fetching at the same times forever. */
  random: () => number;
};

/**
 * Fetches one value repeatedly: at once, periodically, and on request. At most one fetch is in progress; all who wait share it, and it
 * continues after they have given up. Disposal aborts it and prevents further fetches.
 */
export function createPacedFetches<Value>(deps: FetchOptions<Value>): PacedFetches<Value> {
  const { onFetched, cooldownMs, againAfterMs, clock, random } = deps;
  let shared: Promise<FetchResult<Value>> | undefined;
  let latest: FetchResult<Value> | undefined;
  let beganAt = Number.NEGATIVE_INFINITY;
  let closed = false;
  let current: AbortController | undefined;
  let endCooldown = () => {};
  let cancelNext = () => {};

  function next(): Promise<FetchResult<Value>> {
    shared ??= cooldown().then(fetchOnce).then(settle);
    return shared;
  }

  function cooldown(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const restMs = closed ? 0 : beganAt + cooldownMs - clock.now();
    if (restMs <= 0) return Promise.resolve();
    const cancel = clock.after(restMs, resolve);
    endCooldown = () => {
      cancel();
      resolve();
    };
    return promise;
  }

  function fetchOnce(): FetchResult<Value> | Promise<FetchResult<Value>> {
    beganAt = clock.now();
    if (closed) return { asOf: beganAt, ok: false, failure: ended() };
    current = new AbortController();
    return fetchInTime(deps, { asOf: beganAt, controller: current });
  }

  function settle(fetched: FetchResult<Value>): FetchResult<Value> {
    shared = undefined;
    latest = fetched;
    if (closed) return fetched;
    const { min, max } = fetched.ok ? againAfterMs.success : againAfterMs.failure;
    cancelNext();
    cancelNext = clock.after(min + random() * (max - min), () => void next());
    onFetched(fetched);
    return fetched;
  }

  void next();

  return {
    next,
    async recent() {
      return latest !== undefined && clock.now() - latest.asOf < cooldownMs ? latest : next();
    },
    [Symbol.dispose]() {
      closed = true;
      cancelNext();
      endCooldown();
      current?.abort(ended());
    },
  };
}

async function fetchInTime<Value>(
  { fetch, fetchMsMax, clock }: FetchOptions<Value>,
  { asOf, controller }: { asOf: number; controller: AbortController },
): Promise<FetchResult<Value>> {
  const cancelTimeout = clock.after(fetchMsMax, () => controller.abort(new Error(`no answer within ${fetchMsMax} ms`)));
  try {
    return { asOf, ok: true, value: await fetch(controller.signal) };
  } catch (failure) {
    return { asOf, ok: false, failure };
  } finally {
    cancelTimeout();
  }
}

function ended(): Error {
  return new Error('no more fetches: the process is shutting down');
}
