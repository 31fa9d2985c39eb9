import type { Evidence } from '../outcomes/outcome.ts';

/**
 * What speaks against a backend for a model, and against whom it speaks (contract.md#ms3-evidence). `holder`: an account; all devices are
 * one.
 */
export interface EvidenceLog {
  /** Notes a failure of this holder's request. True if it counts against the backend. */
  weigh(evidence: Evidence, holder: string): boolean;
  /** A health test has failed. */
  noteFailedTest(): void;
  /** Whether the backend may be ill only for this holder's requests: asked last, one call at a time. */
  isSuspect(holder: string): boolean;
  /** A failure of this holder is probably that of its request. */
  blame(holder: string): void;
  /** It was blamed within this time, in milliseconds. */
  isBlamedWithin(holder: string, ms: number): boolean;
  /** Holders for whom it is. */
  suspects(): number;
  /** A request of this holder was answered. */
  clear(holder: string): void;
}

type Failure = { holder: string; at: number; counts: boolean };
type Suspicion = { until: number; blamedAt: number };

/** As long as a breaker remembers. */
const windowMs = 20_000;
const suspectMs = 30_000;
/** More failures in the window, or more suspicious holders, change nothing. */
const failuresMax = 200;
const suspectsMax = 1_000;
const never = Number.NEGATIVE_INFINITY;

export function createEvidenceLog(now: () => number): EvidenceLog {
  let failures: Failure[] = [];
  let testFailedAt = never;
  const suspicions = new Map<string, Suspicion>();

  /**
   * As many failures of a holder count as others have: so one holder alone never opens a breaker, however often it fails, nor with a single
   * failure of another.
   */
  function isShared(holder: string): boolean {
    const own = failures.filter((failure) => failure.holder === holder && failure.counts).length;
    return failures.filter((failure) => failure.holder !== holder).length > own;
  }

  function counts(evidence: Evidence, holder: string): boolean {
    const isTested = now() - testFailedAt < windowMs && evidence !== 'request';
    return isTested || isShared(holder);
  }

  return {
    weigh(evidence, holder) {
      // What was not the fault of a request says nothing about another one.
      if (evidence === 'backend' || evidence === 'operator') return true;
      failures = failures.filter(({ at }) => now() - at < windowMs).slice(1 - failuresMax);
      const failure = { holder, at: now(), counts: counts(evidence, holder) };
      failures.push(failure);
      if (!failure.counts) {
        const { blamedAt = never } = suspicions.get(holder) ?? {};
        suspicions.delete(holder);
        suspicions.set(holder, { until: now() + suspectMs, blamedAt });
        const [oldest] = suspicions.keys();
        if (suspicions.size > suspectsMax && oldest !== undefined) suspicions.delete(oldest);
      }
      return failure.counts;
    },
    noteFailedTest() {
      testFailedAt = now();
    },
    isSuspect(holder) {
      const suspicion = suspicions.get(holder);
      if (suspicion === undefined) return false;
      if (suspicion.until > now()) return true;
      suspicions.delete(holder);
      return false;
    },
    blame(holder) {
      const suspicion = suspicions.get(holder);
      if (suspicion !== undefined) suspicion.blamedAt = now();
    },
    isBlamedWithin: (holder, ms) => (suspicions.get(holder)?.blamedAt ?? never) > now() - ms,
    suspects: () => [...suspicions.values()].filter(({ until }) => until > now()).length,
    clear: (holder) => void suspicions.delete(holder),
  };
}
