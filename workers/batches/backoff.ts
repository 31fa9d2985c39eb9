/** `now` returns milliseconds of a clock that only goes forward. */
export function createBackoff({
  firstMs,
  maxMs,
  now = () => performance.now(),
}: {
  firstMs: number;
  maxMs: number;
  now?: () => number;
}) {
  const pauses = new Map<string, { failures: number; until: number }>();
  return {
    /** Whether it is too early to try again. */
    waits: (name: string): boolean => (pauses.get(name)?.until ?? 0) > now(),
    failed(name: string): void {
      const failures = pauses.get(name)?.failures ?? 0;
      pauses.set(name, { failures: failures + 1, until: now() + Math.min(maxMs, firstMs * 2 ** failures) });
    },
    succeeded: (name: string): void => void pauses.delete(name),
    /** Forgets all other names. */
    keepOnly(names: ReadonlySet<string>): void {
      for (const name of pauses.keys()) if (!names.has(name)) pauses.delete(name);
    },
  };
}

/** When to try again what has failed. The pause doubles with each failure in a row. */
export type Backoff = ReturnType<typeof createBackoff>;
