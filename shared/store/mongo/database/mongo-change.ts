import { pauseBeforeRetry } from '../../adapters/pause-before-retry.ts';

type Change<Kept, Next, Result> = {
  /** Reads a state that a failover cannot undo. */
  read(): Promise<Kept | undefined>;
  decide(kept: Kept | undefined): { result: Result; next?: Next };
  /** Returns false if the document has changed since the decision. */
  write(next: Next, decidedOn: Kept | undefined): Promise<boolean>;
};

/**
 * Changes one document as `decide` returns. Each failed attempt means that another change succeeded, so all concurrent changes finish. A
 * change that is not yet safe from a failover is not used for a decision: it waits until the change is safe, or until the call's deadline.
 */
export async function changeGuarded<Kept, Next, Result>(
  { read, decide, write }: Change<Kept, Next, Result>,
  signal: AbortSignal,
): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    const kept = await read();
    const { result, next } = decide(kept);
    if (next === undefined) return result;
    signal.throwIfAborted(); // the caller has received a failure: nothing more may change
    if (await write(next, kept)) return result;
    await pauseBeforeRetry(attempt, signal);
  }
}
