import {
  type Breaker,
  type BreakerState,
  createBreaker,
  createLook,
  probeAfterMs,
  type WatchedCall,
} from './breaker.ts';
import { createEvidenceLog, type Evidence } from './evidence.ts';

/** One call, whose end decides about the next ones. */
export interface TrackedCall {
  /** The backend answers. */
  firstToken(): void;
  /** True if a failure counts against the backend. */
  end(end: CallEnd): boolean;
}

/**
 * What a call shows about the health of its backend. `answered`: also if it refused the request as invalid. `alive`: it is well, and did
 * not serve the request. `abandoned`: the call ended before it could show anything. `prompt`: if the backend has reported its tokens.
 */
export type CallEnd =
  | { outcome: 'answered'; prompt?: PromptTokens | undefined }
  | { outcome: 'alive' | 'abandoned' }
  | { outcome: 'failed'; evidence: Evidence };

/** `cachedTokens`: those of `promptTokens` that the backend had in its prefix cache. */
export type PromptTokens = { promptTokens: number; cachedTokens: number };

/** The health of a backend for one model. */
export interface BackendHealth extends Disposable {
  breaker(): BreakerState;
  /**
   * It must not be called: its breaker is open, or the next call is a probe, and this holder is to blame for a failure there: it was a
   * probe, or the backend was well after it.
   */
  refuses(holder?: string): boolean;
  /** A call or a health test shows whether it may be called. Others wait for its result. */
  isProbed(): boolean;
  /** A request would call it: if it could not be reached or failed a test, it is tested, so that one that is back is called at once. */
  lookAgain(): void;
  /** Asked last for this holder's requests, and one call at a time. */
  isSuspect(holder: string): boolean;
  /** Calls of a holder in flight. */
  callsOf(holder: string): number;
  suspects(): number;
  /** Recent time to the first token, in milliseconds. Undefined if it is unknown: then a call finds it out. */
  firstTokenMs(): number | undefined;
  /** Calls that ended in about the last minute. Those that were abandoned are not counted. */
  recent(): RecentOutcomes;
  begin(holder: string): TrackedCall;
}

/** Older samples are stale. */
const recentMs = 60_000;
/** The weight of the latest sample in the mean. */
const latestWeight = 0.3;
/** A backend that has just failed ranks as slower than any other, even if it failed quickly. */
export const failedMs = Number.MAX_SAFE_INTEGER;

type Deps = {
  onBreaker: (state: BreakerState) => void;
  /** Asks the backend for its health: false if that fails. */
  test: () => Promise<boolean>;
  /** A test has ended that calls waited for. */
  onLooked?: () => void;
  probeMs: () => number;
  random: () => number;
  now: () => number;
};

export function createBackendHealth(deps: Deps): BackendHealth {
  const { onBreaker, test, onLooked = () => {}, probeMs, random, now } = deps;
  const breaker: Breaker = createBreaker({ onChange: onBreaker, probeMs, random });
  const [outcomes, evidence] = [createRecentOutcomes(now), createEvidenceLog(now)];
  const [calls, pace] = [createCallCounts(), createPace(now)];
  const look = createLook({ breaker, test, onEnd: onLooked, now });

  /** What a request may have caused proves nothing, but a test of the backend does. */
  async function proveByTest(watched: WatchedCall, holder: string): Promise<void> {
    if (await test()) return evidence.blame(holder);
    for (const log of [evidence, look]) log.noteFailedTest();
    pace.noteFailure();
    watched.failed();
  }

  return {
    refuses: (holder = '') =>
      (breaker.state() === 'open' && !look.isTesting()) ||
      (breaker.state() === 'half-open' && evidence.isBlamedWithin(holder, probeAfterMs)),
    isProbed: () => breaker.state() === 'probing' || look.isTesting(),
    breaker: breaker.state,
    recent: outcomes.sum,
    lookAgain: look.begin,
    callsOf: calls.of,
    isSuspect: evidence.isSuspect,
    suspects: evidence.suspects,
    firstTokenMs: () => (breaker.state() === 'half-open' ? undefined : pace.firstTokenMs()),
    begin(holder) {
      const [begunAt, isProbe, watched] = [now(), breaker.state() !== 'closed', breaker.watch()];
      let [answers, hasSucceeded] = [false, false];
      calls.add(holder, 1);

      function fail(of: Evidence): boolean {
        outcomes.note({ failed: 1 });
        look.noteFailure(of, begunAt);
        if (evidence.weigh(of, holder)) {
          if (!answers) pace.noteFailure();
          watched.failed();
          return true;
        }
        watched.unproven();
        if (isProbe && !hasSucceeded) evidence.blame(holder);
        void proveByTest(watched, holder);
        return false;
      }

      function succeed(prompt: PromptTokens | undefined): void {
        outcomes.note({ answered: 1, ...prompt });
        evidence.clear(holder);
        // An answer in one piece shows that the backend answers, but not how soon it began.
        pace.forgetFailure();
        if (!hasSucceeded) watched.succeeded();
      }

      return {
        firstToken() {
          if (answers) return;
          answers = true;
          pace.note(now() - begunAt);
          // For a suspect account the first token proves nothing: its answers may always break off.
          hasSucceeded = !evidence.isSuspect(holder);
          if (hasSucceeded) watched.succeeded();
        },
        end(end) {
          calls.add(holder, -1);
          if (end.outcome === 'failed') return fail(end.evidence);
          if (end.outcome === 'answered') succeed(end.prompt);
          else watched[end.outcome]();
          return false;
        },
      };
    },
    [Symbol.dispose]: () => breaker[Symbol.dispose](),
  };
}

/** Calls in flight by their holders. */
function createCallCounts() {
  const calls = new Map<string, number>();
  return {
    of: (holder: string) => calls.get(holder) ?? 0,
    add(holder: string, change: 1 | -1): void {
      const count = (calls.get(holder) ?? 0) + change;
      if (count > 0) calls.set(holder, count);
      else calls.delete(holder);
    },
  };
}

/** The recent time to the first token. */
function createPace(now: () => number) {
  let latest: { ms: number; at: number } | undefined;
  return {
    note(ms: number): void {
      const known = latest === undefined || latest.ms === failedMs ? ms : latest.ms;
      latest = { ms: known + latestWeight * (ms - known), at: now() };
    },
    noteFailure(): void {
      latest = { ms: failedMs, at: now() };
    },
    forgetFailure(): void {
      if (latest?.ms === failedMs) latest = undefined;
    },
    firstTokenMs: () => (latest === undefined || now() - latest.at >= recentMs ? undefined : latest.ms),
  };
}

/** How many calls of a backend ended lately, and the tokens of their prompts. */
export type RecentOutcomes = { answered: number; failed: number } & PromptTokens;

const noOutcomes: RecentOutcomes = { answered: 0, failed: 0, promptTokens: 0, cachedTokens: 0 };
const outcomeNames = Object.keys(noOutcomes) as (keyof RecentOutcomes)[]; // as declared

const bucketMs = 10_000;
/** About the last minute. */
const bucketsMax = 6;

/** Counts the outcomes of calls over about the last minute. `now`: milliseconds of a monotonic clock. */
export function createRecentOutcomes(now: () => number) {
  let buckets: (RecentOutcomes & { index: number })[] = [];

  function forgetOld(): number {
    const index = Math.floor(now() / bucketMs);
    if (buckets[0] !== undefined && buckets[0].index <= index - bucketsMax)
      buckets = buckets.filter((bucket) => bucket.index > index - bucketsMax);
    return index;
  }

  return {
    note(more: Partial<RecentOutcomes>): void {
      const index = forgetOld();
      let latest = buckets.at(-1);
      if (latest?.index !== index) {
        latest = { index, ...noOutcomes };
        buckets.push(latest);
      }
      for (const name of outcomeNames) latest[name] += more[name] ?? 0;
    },
    sum(): RecentOutcomes {
      forgetOld();
      const sum = { ...noOutcomes };
      for (const bucket of buckets) for (const name of outcomeNames) sum[name] += bucket[name];
      return sum;
    },
  };
}
