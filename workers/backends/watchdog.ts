import { createOverdue } from './overdue.ts';

/** Aborts what is waited for too long: when one of `parents` is aborted, with its reason, or when the time that was set is over. */
export interface Watchdog extends Disposable {
  signal: AbortSignal;
  /** Sets the time anew, in milliseconds, and the reason to abort with; what was set before counts no longer. */
  expectWithin(ms: number, reason: () => unknown): void;
  abort(reason: unknown): void;
}

export function createWatchdog(parents: readonly AbortSignal[], now = () => performance.now()): Watchdog {
  const controller = new AbortController();
  const overdue = createOverdue(now);
  const abort = (reason: unknown) => controller.abort(reason);
  // One signal made of all of them would cost more than all the rest.
  const onParent = () => abort(parents.find(({ aborted }) => aborted)?.reason);
  if (parents.some(({ aborted }) => aborted)) onParent();
  else for (const parent of parents) parent.addEventListener('abort', onParent, { once: true });

  return {
    signal: controller.signal,
    expectWithin: (ms, reason) => overdue.expectWithin(ms, () => abort(reason())),
    abort,
    [Symbol.dispose]() {
      overdue[Symbol.dispose]();
      for (const parent of parents) parent.removeEventListener('abort', onParent);
    },
  };
}
