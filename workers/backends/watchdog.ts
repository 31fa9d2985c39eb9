/** Aborts what is waited for too long: when `parent` is aborted, with its reason, or when the time that was set is over. */
export interface Watchdog extends Disposable {
  signal: AbortSignal;
  /** Sets the time anew, in milliseconds, and the reason to abort with; what was set before counts no longer. */
  expectWithin(ms: number, late: () => unknown): void;
  /** Nothing is waited for just now. */
  relax(): void;
}

export function createWatchdog(parent: AbortSignal): Watchdog {
  const controller = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const onParent = () => controller.abort(parent.reason);
  if (parent.aborted) onParent();
  else parent.addEventListener('abort', onParent, { once: true });

  return {
    signal: controller.signal,
    expectWithin(ms, late) {
      clearTimeout(timer);
      timer = setTimeout(() => controller.abort(late()), ms);
    },
    relax: () => clearTimeout(timer),
    [Symbol.dispose]() {
      clearTimeout(timer);
      parent.removeEventListener('abort', onParent);
    },
  };
}
