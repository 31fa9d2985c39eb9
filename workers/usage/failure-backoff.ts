/** Backoff for tasks that keep failing, so that they are tried less often and logged once. */
export interface FailureBackoff<Name> {
  /** True if it is too early to try again. */
  waits(name: Name): boolean;
  /** True for the first failure since it last worked. */
  failed(name: Name): boolean;
  /** True if it had failed before. */
  worked(name: Name): boolean;
}

const waitMsMin = 100;
const waitMsMax = 5_000;

/** Waits grow to five seconds. Each is shortened by up to a half at random. Failures during a wait do not extend it. */
export function createFailureBackoff<Name>({
  now,
  random,
}: {
  now: () => number;
  random: () => number;
}): FailureBackoff<Name> {
  const backoff = new Map<Name, { failures: number; until: number }>();
  const waits = (name: Name) => now() < (backoff.get(name)?.until ?? 0);
  return {
    waits,
    failed(name) {
      const failures = backoff.get(name)?.failures ?? 0;
      if (waits(name)) return false;
      const waitMs = Math.min(waitMsMax, waitMsMin * 2 ** failures) * (1 + random()) * 0.5;
      backoff.set(name, { failures: failures + 1, until: now() + waitMs });
      return failures === 0;
    },
    worked: (name) => backoff.delete(name),
  };
}
