/** A monotonic clock in milliseconds. `after` runs once; the returned function cancels it. */
export type Clock = { now(): number; after(ms: number, run: () => void): () => void };

/** Its timers do not keep the process alive. */
export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms).unref();
    return () => clearTimeout(timer);
  },
};
