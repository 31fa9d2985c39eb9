import { type Breaker, type BreakerState, createBreaker } from './breaker.ts';

/** How one call went, for whoever asks for the next one. */
export interface TrackedCall {
  /** It is answered, and from then on no longer waited for. */
  firstToken(): void;
  /** `retryAfterMs`: how long the backend wants to be left alone. */
  end(outcome: CallOutcome, retryAfterMs: number): void;
}

/** `answered`: also that the request was at fault; `abandoned`: it ended before it could show anything. */
export type CallOutcome = 'answered' | 'failed' | 'abandoned';

/** How a backend has answered one model. */
export interface BackendHealth extends Disposable {
  breaker(): BreakerState;
  /** It is not to be called: its breaker is open or tries one call just now, or it asked to be left alone. */
  refuses(): boolean;
  /** Milliseconds, undefined where nothing is known of now: then it is worth finding out. */
  firstTokenMs(): number | undefined;
  begin(): TrackedCall;
}

/** A first token of longer ago says nothing of now. */
const recentMs = 60_000;
/** What the latest first token weighs in their mean. */
const latestWeight = 0.3;
/** One that has just failed is slower than any other, however quick it was about it. */
const failedMs = Number.MAX_SAFE_INTEGER;

export function createBackendHealth({
  onBreaker,
  probeMs,
  random,
  now,
}: {
  onBreaker: (state: BreakerState) => void;
  probeMs: number;
  random: () => number;
  now: () => number;
}): BackendHealth {
  const breaker: Breaker = createBreaker({ onChange: onBreaker, probeMs, random });
  let pausedUntil = 0;
  let latest: { ms: number; at: number } | undefined;

  function note(ms: number): void {
    const known = latest === undefined || latest.ms === failedMs ? ms : latest.ms;
    latest = { ms: known + latestWeight * (ms - known), at: now() };
  }

  return {
    breaker: breaker.state,
    refuses: () => breaker.state() === 'open' || breaker.state() === 'probing' || now() < pausedUntil,
    firstTokenMs() {
      if (latest === undefined || now() - latest.at >= recentMs || breaker.state() === 'half-open') return undefined;
      return latest.ms;
    },
    begin() {
      const begunAt = now();
      const watched = breaker.watch();
      let answers = false;
      return {
        firstToken() {
          if (answers) return;
          answers = true;
          note(now() - begunAt);
          watched.succeeded();
        },
        end(outcome, retryAfterMs) {
          // Of several that it said at once the latest holds.
          pausedUntil = Math.max(pausedUntil, now() + retryAfterMs);
          if (outcome === 'failed') {
            if (!answers) latest = { ms: failedMs, at: now() };
            watched.failed();
          } else if (outcome === 'abandoned') {
            watched.abandoned();
          } else if (!answers) {
            // How soon it began is not known of an answer that came in one piece; that it answers is.
            if (latest?.ms === failedMs) latest = undefined;
            watched.succeeded();
          }
        },
      };
    },
    [Symbol.dispose]: () => breaker[Symbol.dispose](),
  };
}
