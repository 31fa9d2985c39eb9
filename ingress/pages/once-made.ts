/** A try costs a thread and up to a second of a processor: after one that failed there is none for so long. */
export const makePauseMs = 5_000;

/**
 * What is made when it is first asked for, and then kept. So is a failure for `makePauseMs`, so that who asks again and again does
 * not have it tried each time. `now`: milliseconds of a clock that only goes forward.
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
