/**
 * Work that is never done twice at once: asked for while it is being done, it is done once more behind that. Nothing is
 * begun once `signal` is aborted; `work` tells of its own failures.
 */
export function oneAtATime(work: () => Promise<void>, signal: AbortSignal): () => Promise<void> {
  let isWorking = false;
  let isAskedAgain = false;

  return async function ask(): Promise<void> {
    isAskedAgain = true;
    if (isWorking) return;
    isWorking = true;
    try {
      while (isAskedAgain && !signal.aborted) {
        isAskedAgain = false;
        await work();
      }
    } finally {
      isWorking = false;
    }
  };
}
