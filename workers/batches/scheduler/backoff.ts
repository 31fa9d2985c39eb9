/** When to try again what has failed. The pause doubles with each failure in a row. */
export interface Backoff {
  /** Whether it is too early to try again. */
  waits(name: string): boolean;
  failed(name: string): void;
  succeeded(name: string): void;
  /** Forgets all other names. */
  keepOnly(names: ReadonlySet<string>): void;
}

/** `now` returns milliseconds of a clock that only goes forward. */
export function createBackoff({
  firstMs,
  maxMs,
  now = () => performance.now(),
}: {
  firstMs: number;
  maxMs: number;
  now?: () => number;
}): Backoff {
  const pauses = new Map<string, { failures: number; until: number }>();
  return {
    waits: (name) => (pauses.get(name)?.until ?? 0) > now(),
    failed(name) {
      const failures = pauses.get(name)?.failures ?? 0;
      pauses.set(name, { failures: failures + 1, until: now() + Math.min(maxMs, firstMs * 2 ** failures) });
    },
    succeeded: (name) => void pauses.delete(name),
    keepOnly(names) {
      for (const name of pauses.keys()) if (!names.has(name)) pauses.delete(name);
    },
  };
}
