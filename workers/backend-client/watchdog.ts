import { createTimeLimit } from './time-limit.ts';

/** A signal that is aborted with the reason of the first of `parents` that is aborted, or when the time limit is over. */
export function createWatchdog(parents: readonly AbortSignal[], now = () => performance.now()) {
  const controller = new AbortController();
  const timeLimit = createTimeLimit(now);
  const abort = (reason: unknown) => controller.abort(reason);
  // `AbortSignal.any` costs more than all other code here.
  const onParent = () => abort(parents.find(({ aborted }) => aborted)?.reason);
  if (parents.some(({ aborted }) => aborted)) onParent();
  else for (const parent of parents) parent.addEventListener('abort', onParent, { once: true });

  return {
    signal: controller.signal,
    /** Sets a new time limit in milliseconds, and the reason to abort with. It replaces the previous one. */
    expectWithin: (ms: number, reason: () => unknown): void => timeLimit.expectWithin(ms, () => abort(reason())),
    abort,
    [Symbol.dispose]() {
      timeLimit[Symbol.dispose]();
      for (const parent of parents) parent.removeEventListener('abort', onParent);
    },
  };
}

export type Watchdog = ReturnType<typeof createWatchdog>;
