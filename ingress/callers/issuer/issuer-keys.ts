import type { Log } from '../../../shared/process/log.ts';
import { type Clock, systemClock } from './clock.ts';
import { fetchIssuerKeys, type KeySet } from './fetch-issuer-keys.ts';
import { createPacedFetches, type Fetched } from './paced-fetches.ts';

export interface IssuerKeys extends Disposable {
  /**
   * What `attempt` makes of the issuer's keys; it gives `undefined` for a token that none of them signed. The keys that
   * are known come first. Where they do not do, those that the issuer publishes from then on are waited for, two seconds
   * at most. `undefined` is proven: a fetch that began when this had been called brought no such key. Throws where the
   * issuer did not answer in time, so that nothing is proven.
   */
  consult<Found>(attempt: (keys: KeySet) => Promise<Found | undefined>): Promise<Found | undefined>;
  /** Whether the issuer gives its keys now, or did so within the last second; throws why it does not. */
  check(): Promise<void>;
  /** Since the beginning of the last fetch that brought the keys; `undefined` while none has. */
  ageMs(): number | undefined;
}

const waitMsMax = 2_000;
/** An issuer that has not answered for a day may have withdrawn any of its keys meanwhile. */
const trustedMs = 86_400_000;
const pace = {
  /** All that somebody who makes up key ids costs the issuer, and short enough for a token to wait for the next fetch. */
  cooldownMs: 1_000,
  fetchMsMax: 5_000,
  againAfterMs: { success: { min: 300_000, max: 600_000 }, failure: { min: 30_000, max: 60_000 } },
};

/**
 * The keys of one issuer: fetched ahead of need and kept. A fetch that succeeds replaces them, so that a key which the
 * issuer withdrew goes with it; one that fails leaves them as they are, and after a day without success they are not
 * trusted any more. However many wait, they share one fetch, each at the price of a promise and a timer for two seconds.
 */
export function createIssuerKeys(deps: {
  issuer: string;
  log: Log;
  fetchKeys?: (issuer: string, signal: AbortSignal) => Promise<KeySet>;
  clock?: Clock;
  random?: () => number;
}): IssuerKeys {
  const { issuer, log, fetchKeys = fetchIssuerKeys, clock = systemClock, random = Math.random } = deps;
  let known: { keys: KeySet; asOf: number } | undefined;
  const tell = tellChanges(log);

  const ageMs = () => (known === undefined ? undefined : clock.now() - known.asOf);
  const trusted = () => (known !== undefined && clock.now() - known.asOf < trustedMs ? known : undefined);

  function onFetched(fetched: Fetched<KeySet>): void {
    if (fetched.ok) known = { keys: fetched.value, asOf: fetched.asOf };
    const tooOld = known !== undefined && trusted() === undefined;
    tell(fetched.ok ? 'reachable' : tooOld ? 'distrusted' : 'away', fetched.ok ? undefined : fetched.failure);
  }

  const fetch = (signal: AbortSignal) => fetchKeys(issuer, signal);
  const fetches = createPacedFetches({ ...pace, fetch, onFetched, clock, random });

  return {
    ageMs,
    async consult(attempt) {
      const cameAt = clock.now();
      // Three rounds at most: for the keys that are known, for a fetch that had begun before, and for the one after it.
      for (;;) {
        const held = trusted();
        const found = held === undefined ? undefined : await attempt(held.keys);
        if (found !== undefined) return found;
        if (held !== undefined && held.asOf >= cameAt) return undefined;
        const fetched = await before(cameAt + waitMsMax, fetches.next(), clock);
        if (fetched === undefined) throw new Error(`the identity provider gave no keys within ${waitMsMax} ms`);
        if (!fetched.ok && fetched.asOf >= cameAt) {
          throw new Error('the identity provider gives no keys', { cause: fetched.failure });
        }
      }
    },
    async check() {
      const fetched = await fetches.recent();
      if (!fetched.ok) throw fetched.failure;
    },
    [Symbol.dispose]: () => fetches[Symbol.dispose](),
  };
}

/** `undefined` when it takes until the deadline. */
async function before<Value>(deadline: number, work: Promise<Value>, clock: Clock): Promise<Value | undefined> {
  const late = Promise.withResolvers<undefined>();
  const callOff = clock.after(deadline - clock.now(), () => late.resolve(undefined));
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    callOff();
  }
}

/** Once for each change: an outage of hours is not a line for every try. */
function tellChanges(log: Log) {
  let reported: 'reachable' | 'away' | 'distrusted' = 'reachable';
  return function tell(now: typeof reported, failure: unknown): void {
    if (now === reported) return;
    reported = now;
    if (now === 'reachable') log.info({}, 'the identity provider gives its keys again');
    if (now === 'away') log.warn({ err: failure }, 'the identity provider gives no keys; those known stay in use');
    if (now === 'distrusted') log.error({ err: failure }, "the identity provider's keys are a day old and not trusted");
  };
}
