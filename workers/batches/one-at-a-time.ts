/**
 * Returns a function that requests the work, which never runs twice at the same time. If the work is requested while it runs, it runs once
 * more afterwards. None starts after `signal` is aborted. Failures of the work reject the request that started it.
 */
export function oneAtATime(work: () => Promise<void>, signal: AbortSignal): () => Promise<void> {
  let isWorking = false;
  let isRequested = false;

  return async function request(): Promise<void> {
    isRequested = true;
    if (isWorking) return;
    isWorking = true;
    try {
      while (isRequested && !signal.aborted) {
        isRequested = false;
        await work();
      }
    } finally {
      isWorking = false;
    }
  };
}
