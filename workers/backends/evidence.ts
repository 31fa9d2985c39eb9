import type { Evidence } from '../outcomes/outcome.ts';

/**
 * What speaks against a backend for a model, and against whom it speaks (contract.md#ms3-evidence). `holder`: an account; all devices are
 * one.
 */
export interface EvidenceLog {
  /** Notes a failure of this holder's request, or of its probe. True if it counts against the backend. */
  weigh(evidence: Evidence, holder: string, isProbe?: boolean): boolean;
  /** A health test has failed. */
  noteFailedTest(): void;
  /** Whether the backend may be ill only for this holder's requests: asked last, one call at a time. */
  isSuspect(holder: string): boolean;
  /** A probe of this holder has failed there within this time, in milliseconds, and did not count. */
  hasFailedProbeWithin(holder: string, ms: number): boolean;
  /** Holders for whom it is. */
  suspects(): number;
  /** A request of this holder was answered. */
  clear(holder: string): void;
}

type Failure = { holder: string; at: number; counts: boolean };
type Suspicion = { until: number; probeFailedAt: number };

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
    weigh(evidence, holder, isProbe = false) {
      // What was not the fault of a request says nothing about another one.
      if (evidence === 'backend' || evidence === 'operator') return true;
      failures = failures.filter(({ at }) => now() - at < windowMs).slice(1 - failuresMax);
      const failure = { holder, at: now(), counts: counts(evidence, holder) };
      failures.push(failure);
      if (!failure.counts) {
        const probeFailedAt = isProbe ? now() : (suspicions.get(holder)?.probeFailedAt ?? never);
        suspicions.delete(holder);
        suspicions.set(holder, { until: now() + suspectMs, probeFailedAt });
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
    hasFailedProbeWithin: (holder, ms) => (suspicions.get(holder)?.probeFailedAt ?? never) > now() - ms,
    suspects: () => [...suspicions.values()].filter(({ until }) => until > now()).length,
    clear: (holder) => void suspicions.delete(holder),
  };
}
