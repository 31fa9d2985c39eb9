/** Milliseconds that only go forward. `after` runs once, and what it returns calls that off. */
export type Clock = { now(): number; after(ms: number, run: () => void): () => void };

/** Its timers keep no process alive. */
export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms).unref();
    return () => clearTimeout(timer);
  },
};
