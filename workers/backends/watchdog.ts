/** Aborts what is waited for too long: when one of `parents` is aborted, with its reason, or when the time that was set is over. */
export interface Watchdog extends Disposable {
  signal: AbortSignal;
  /** Sets the time anew, in milliseconds, and the reason to abort with; what was set before counts no longer. */
  expectWithin(ms: number, late: () => unknown): void;
  /** Nothing is waited for just now. */
  relax(): void;
}

/** Setting the time costs next to nothing: it is set with every event, and only one timer looks at it, when it may be over. */
export function createWatchdog(parents: readonly AbortSignal[], now = () => performance.now()): Watchdog {
  const controller = new AbortController();
  let due = Number.POSITIVE_INFINITY;
  let reasonOf: () => unknown = () => undefined;
  let timer: NodeJS.Timeout | undefined;
  let looksAt = Number.POSITIVE_INFINITY;
  // One signal made of all of them would cost more than all the rest.
  const onParent = () => controller.abort(parents.find(({ aborted }) => aborted)?.reason);
  if (parents.some(({ aborted }) => aborted)) onParent();
  else for (const parent of parents) parent.addEventListener('abort', onParent, { once: true });

  function lookAtDue(): void {
    clearTimeout(timer);
    looksAt = due;
    // Node warns of a negative time, on the worker's stderr.
    if (due !== Number.POSITIVE_INFINITY) timer = setTimeout(look, Math.max(0, due - now()));
  }

  function look(): void {
    if (due <= now()) controller.abort(reasonOf());
    else lookAtDue();
  }

  return {
    signal: controller.signal,
    expectWithin(ms, late) {
      due = now() + ms;
      reasonOf = late;
      // A timer that is set for an earlier time looks again then.
      if (due < looksAt) lookAtDue();
    },
    relax() {
      due = Number.POSITIVE_INFINITY;
    },
    [Symbol.dispose]() {
      clearTimeout(timer);
      for (const parent of parents) parent.removeEventListener('abort', onParent);
    },
  };
}
