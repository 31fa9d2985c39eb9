import { type Breaker, type BreakerState, createBreaker } from './breaker.ts';
import { createRecentOutcomes, type RecentOutcomes } from './recent-outcomes.ts';

/** One call, whose outcome decides about the next ones. */
export interface TrackedCall {
  /** The backend answers. */
  firstToken(): void;
  /** `retryAfterMs`: how long the backend asks not to be called. */
  end(outcome: CallOutcome, retryAfterMs: number): void;
}

/** `answered`: also if it refused the request as invalid. `abandoned`: the call ended before it could show anything. */
export type CallOutcome = 'answered' | 'failed' | 'abandoned';

/** The health of a backend for one model. */
export interface BackendHealth extends Disposable {
  breaker(): BreakerState;
  /** It must not be called: its breaker is open or probing, or it asked not to be called. */
  refuses(): boolean;
  /** Recent time to the first token, in milliseconds. Undefined if it is unknown: then a call finds it out. */
  firstTokenMs(): number | undefined;
  /** Calls that ended in about the last minute. Those that were abandoned are not counted. */
  recent(): RecentOutcomes;
  begin(): TrackedCall;
}

/** Older samples are stale. */
const recentMs = 60_000;
/** The weight of the latest sample in the mean. */
const latestWeight = 0.3;
/** A backend that has just failed ranks as slower than any other, even if it failed quickly. */
export const failedMs = Number.MAX_SAFE_INTEGER;

export function createBackendHealth({
  onBreaker,
  probeMs,
  random,
  now,
}: {
  onBreaker: (state: BreakerState) => void;
  probeMs: () => number;
  random: () => number;
  now: () => number;
}): BackendHealth {
  const breaker: Breaker = createBreaker({ onChange: onBreaker, probeMs, random });
  const outcomes = createRecentOutcomes(now);
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
    recent: outcomes.sum,
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
          // If several calls ask for a pause, the latest end counts.
          pausedUntil = Math.max(pausedUntil, now() + retryAfterMs);
          if (outcome !== 'abandoned') outcomes.note(outcome);
          if (outcome === 'failed') {
            if (!answers) latest = { ms: failedMs, at: now() };
            watched.failed();
          } else if (outcome === 'abandoned') {
            watched.abandoned();
          } else if (!answers) {
            // An answer in one piece shows that the backend answers, but not how soon it began.
            if (latest?.ms === failedMs) latest = undefined;
            watched.succeeded();
          }
        },
      };
    },
    [Symbol.dispose]: () => breaker[Symbol.dispose](),
  };
}
