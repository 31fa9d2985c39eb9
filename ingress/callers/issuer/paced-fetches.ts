import type { Clock } from './clock.ts';

/** `asOf` is when the fetch began: what has changed at its source since then may be missing in what it brought. */
export type Fetched<Value> = { asOf: number } & ({ ok: true; value: Value } | { ok: false; failure: unknown });

interface PacedFetches<Value> extends Disposable {
  /** The fetch under way, or else the next one, which begins as soon as the cooldown is over. Never rejects. */
  next(): Promise<Fetched<Value>>;
  /** The last one where it began within the cooldown, else `next`. */
  recent(): Promise<Fetched<Value>>;
}

type Span = { min: number; max: number };

type FetchPacing<Value> = {
  fetch: (signal: AbortSignal) => Promise<Value>;
  /** Is told of each fetch before those are who wait for it. */
  onFetched: (fetched: Fetched<Value>) => void;
  /** From the beginning of one fetch to that of the next at the least, whoever asks and however often. */
  cooldownMs: number;
  /** A fetch that takes longer is aborted, and has failed. */
  fetchMsMax: number;
  /** How long after a fetch the next one is made unasked. */
  againAfterMs: { success: Span; failure: Span };
  clock: Clock;
  /** From 0 up to 1. Jitter keeps a fleet whose processes start together from asking together ever after. */
  random: () => number;
};

/**
 * Fetches one thing again and again: at once, from time to time, and when somebody asks. At most one fetch is under way;
 * all who wait share it, and it goes on when they have given up. Once disposed of, it aborts that and begins no other.
 */
export function createPacedFetches<Value>(deps: FetchPacing<Value>): PacedFetches<Value> {
  const { fetch, onFetched, cooldownMs, fetchMsMax, againAfterMs, clock, random } = deps;
  let shared: Promise<Fetched<Value>> | undefined;
  let latest: Fetched<Value> | undefined;
  let beganAt = Number.NEGATIVE_INFINITY;
  let closed = false;
  let abort = (_reason: Error) => {};
  let endCooldown = () => {};
  let callOffNext = () => {};

  function next(): Promise<Fetched<Value>> {
    shared ??= cooldown().then(fetchOnce).then(settle);
    return shared;
  }

  function cooldown(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const restMs = closed ? 0 : beganAt + cooldownMs - clock.now();
    if (restMs <= 0) return Promise.resolve();
    const callOff = clock.after(restMs, resolve);
    endCooldown = () => {
      callOff();
      resolve();
    };
    return promise;
  }

  async function fetchOnce(): Promise<Fetched<Value>> {
    beganAt = clock.now();
    const asOf = beganAt;
    if (closed) return { asOf, ok: false, failure: ended() };
    const controller = new AbortController();
    abort = (reason) => controller.abort(reason);
    const callOff = clock.after(fetchMsMax, () => abort(new Error(`no answer within ${fetchMsMax} ms`)));
    try {
      return { asOf, ok: true, value: await fetch(controller.signal) };
    } catch (failure) {
      return { asOf, ok: false, failure };
    } finally {
      callOff();
    }
  }

  function settle(fetched: Fetched<Value>): Fetched<Value> {
    shared = undefined;
    latest = fetched;
    if (closed) return fetched;
    const { min, max } = fetched.ok ? againAfterMs.success : againAfterMs.failure;
    callOffNext();
    callOffNext = clock.after(min + random() * (max - min), () => void next());
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
      callOffNext();
      endCooldown();
      abort(ended());
    },
  };
}

function ended(): Error {
  return new Error('nothing is fetched any more: the process ends');
}
