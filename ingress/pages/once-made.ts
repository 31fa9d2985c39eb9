/** A try costs a thread and up to one second of CPU time. After a failure, the next try waits this long. */
export const makePauseMs = 5_000;

/**
 * Makes a result at the first call, and returns the same result from then on. A failure is kept for `makePauseMs`, so that repeated
 * requests do not start a try each. `now`: milliseconds of a monotonic clock.
 */
export function onceMade<Result>(
  make: () => Promise<Result>,
  now: () => number = () => performance.now(),
): () => Promise<Result> {
  let made: Promise<Result> | undefined;
  let staleAt = Number.POSITIVE_INFINITY;
  return () => {
    if (made !== undefined && now() < staleAt) return made;
    staleAt = Number.POSITIVE_INFINITY;
    made = make().catch((error) => {
      staleAt = now() + makePauseMs;
      throw error;
    });
    return made;
  };
}
