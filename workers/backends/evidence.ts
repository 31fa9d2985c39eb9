/**
 * What speaks against a backend after a failure (contract.md#ms3-evidence). `backend`: it cannot be the request's fault. `request`: it can,
 * so it counts if requests of two accounts failed. `silence`: the same, or after a failed health test. `operator`: the backend refuses the
 * operator's own account there, and is paused. `operator, if two`: the same, with the evidence of `silence`.
 */
export type Evidence = 'backend' | 'request' | 'silence' | 'operator' | 'operator, if two';

type Failure = { holder: string; at: number; counts: boolean };
type Suspicion = { until: number; blamedAt: number };

/** As long as a breaker remembers. */
const windowMs = 20_000;
const suspectMs = 30_000;
/** More failures in the window, or more suspicious holders, change nothing. */
const failuresMax = 200;
const suspectsMax = 1_000;
const never = Number.NEGATIVE_INFINITY;

/**
 * What speaks against a backend for a model, and against whom it speaks (contract.md#ms3-evidence). `holder`: an account; all devices are
 * one.
 */
export function createEvidenceLog(now: () => number) {
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
    /** Notes a failure of this holder's request. True if it counts against the backend. */
    weigh(evidence: Evidence, holder: string): boolean {
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
    /** A health test has failed. */
    noteFailedTest(): void {
      testFailedAt = now();
    },
    /** Whether the backend may be ill only for this holder's requests: asked last, one call at a time. */
    isSuspect(holder: string): boolean {
      const suspicion = suspicions.get(holder);
      if (suspicion === undefined) return false;
      if (suspicion.until > now()) return true;
      suspicions.delete(holder);
      return false;
    },
    /** A failure of this holder is probably that of its request. */
    blame(holder: string): void {
      const suspicion = suspicions.get(holder);
      if (suspicion !== undefined) suspicion.blamedAt = now();
    },
    /** It was blamed within this time, in milliseconds. */
    isBlamedWithin: (holder: string, ms: number): boolean => (suspicions.get(holder)?.blamedAt ?? never) > now() - ms,
    /** Holders for whom it is. */
    suspects: (): number => [...suspicions.values()].filter(({ until }) => until > now()).length,
    /** A request of this holder was answered. */
    clear: (holder: string): void => void suspicions.delete(holder),
  };
}
