/** Aborted by the first SIGTERM or SIGINT; a second one ends the process at once, for whoever does not want to wait. */
export function shutdownSignal(): AbortSignal {
  const controller = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (controller.signal.aborted) process.exit(1);
      controller.abort();
    });
  }
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
  const handle = setTimeout(timer.resolve, ms, false as const);
  try {
    return await Promise.race([work.then(() => true), timer.promise]);
  } finally {
    clearTimeout(handle);
  }
}
