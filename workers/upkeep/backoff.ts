/** Backoff for what keeps failing, so that it is tried less often and logged once. */
export interface Backoff<Name> {
  /** True if it is too early to try again. */
  waits(name: Name): boolean;
  /** True for the first failure since it last succeeded. */
  failed(name: Name): boolean;
  /** True if it had failed before. */
  succeeded(name: Name): boolean;
  /** Forgets all other names. */
  keepOnly(names: ReadonlySet<Name>): void;
}

/**
 * The wait doubles with each failure, from `firstMs` to `maxMs`, and is shortened by up to a half at random. Failures during a wait do not
 * extend it. `now` is a clock that only goes forward, in milliseconds.
 */
export function createBackoff<Name>({
  firstMs = 100,
  maxMs = 5_000,
  now = () => performance.now(),
  random = Math.random,
}: {
  firstMs?: number;
  maxMs?: number;
  now?: () => number;
  random?: () => number;
} = {}): Backoff<Name> {
  const waiting = new Map<Name, { failures: number; until: number }>();
  const waits = (name: Name) => now() < (waiting.get(name)?.until ?? 0);
  return {
    waits,
    failed(name) {
      const failures = waiting.get(name)?.failures ?? 0;
      if (waits(name)) return false;
      const waitMs = Math.min(maxMs, firstMs * 2 ** failures) * (1 + random()) * 0.5;
      waiting.set(name, { failures: failures + 1, until: now() + waitMs });
      return failures === 0;
    },
    succeeded: (name) => waiting.delete(name),
    keepOnly(names) {
      for (const name of waiting.keys()) if (!names.has(name)) waiting.delete(name);
    },
  };
}
