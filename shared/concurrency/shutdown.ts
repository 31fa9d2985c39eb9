/**
 * Returns a signal that is aborted by the first SIGTERM, SIGINT or SIGHUP. Further ones change nothing: Ctrl-C reaches every process of a
 * terminal, and some of those forward it a second time. The shutdown has its own time limit.
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

/** Returns true if `work` ended within `ms`, and false if it did not. A failure of `work` is passed on. */
export async function within(ms: number, work: Promise<unknown>): Promise<boolean> {
  const timer = Promise.withResolvers<false>();
  // If the process was blocked, timers run before the results that have arrived in the meantime.
  const handle = setTimeout(() => setImmediate(timer.resolve, false as const), ms);
  try {
    return await Promise.race([work.then(() => true), timer.promise]);
  } finally {
    clearTimeout(handle);
  }
}
