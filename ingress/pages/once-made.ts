/** A try costs a thread and up to a second of a processor. After a failure, the next try waits this long. */
export const makePauseMs = 5_000;

/**
 * What is made when it is first asked for, and then kept. A failure is kept for `makePauseMs`, so that repeated requests do not
 * start a try each. `now`: milliseconds of a clock that only goes forward.
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
