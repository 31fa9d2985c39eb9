/**
 * Aborted by the first SIGTERM, SIGINT or SIGHUP. More of them change nothing: Ctrl-C reaches every process of a terminal,
 * and some of those pass it on a second time. What follows has its own bound.
 */
export function shutdownSignal(): AbortSignal {
  const controller = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => controller.abort());
  return controller.signal;
}

/** Resolves when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** True when `work` ended within `ms`, false when it did not. A failure of `work` is passed on. */
export async function within(ms: number, work: Promise<unknown>): Promise<boolean> {
  const timer = Promise.withResolvers<false>();
  // After a process was held up, timers come before the results that have arrived meanwhile.
  const handle = setTimeout(() => setImmediate(timer.resolve, false as const), ms);
  try {
    return await Promise.race([work.then(() => true), timer.promise]);
  } finally {
    clearTimeout(handle);
  }
}
