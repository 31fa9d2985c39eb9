import { ApiError } from '../../shared/errors.ts';

/** A try costs a thread and up to one second of CPU time. After a failure, the next try waits this long. */
const makePauseMs = 5_000;

/** `what` names the result in the error message for clients; `now` is in milliseconds of a monotonic clock. */
type Source<Result> = { what: string; make: () => Promise<Result>; now?: (() => number) | undefined };

/**
 * Makes a result at the first call, and returns the same result from then on. Fails with `SERVICE_UNAVAILABLE`; a failure is kept for
 * five seconds, so that repeated requests do not start a try each.
 */
export function onceMade<Result>({ what, make, now = () => performance.now() }: Source<Result>): () => Promise<Result> {
  let made: Promise<Result> | undefined;
  let staleAt = Number.POSITIVE_INFINITY;
  return () => {
    if (made !== undefined && now() < staleAt) return made;
    staleAt = Number.POSITIVE_INFINITY;
    made = make().catch((cause) => {
      staleAt = now() + makePauseMs;
      const message = `${what} is not available right now. Retry.`;
      throw new ApiError('SERVICE_UNAVAILABLE', message, { cause, retryAfterMs: makePauseMs });
    });
    return made;
  };
}
