import { setTimeout as sleep } from 'node:timers/promises';

/** Between two attempts at a change, so that those who change one document at once do not keep meeting each other. */
const pauseMsMax = 50;

type Change<Kept, Next, Result> = {
  /** What a failover cannot take back. */
  read(): Promise<Kept | undefined>;
  decide(kept: Kept | undefined): { result: Result; next?: Next };
  /** False where it is not what it was when `next` was decided. */
  write(next: Next, decidedOn: Kept | undefined): Promise<boolean>;
};

/**
 * Changes one document as `decide` says. Each time round somebody else's change has stood, so all who change it at once come to
 * their end. One that is not yet safe from a failover is no ground for a decision: that waits until it is, or until the call is
 * over.
 */
export async function changeGuarded<Kept, Next, Result>(
  { read, decide, write }: Change<Kept, Next, Result>,
  signal: AbortSignal,
): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    const kept = await read();
    const { result, next } = decide(kept);
    if (next === undefined) return result;
    signal.throwIfAborted(); // the caller was told that it failed: nothing may change any more
    if (await write(next, kept)) return result;
    await sleep(Math.random() * Math.min(pauseMsMax, 2 ** attempt), undefined, { signal });
  }
}
