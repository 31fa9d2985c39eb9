const [minute, hour] = [60_000, 3_600_000];

const pausesMs = [5_000, minute, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 14 * hour] as const;
const longestMs = 14 * hour;
const shortestMs = 1_000;
const retryAfterMsMax = hour;

/** How long a delivery, and an endpoint, is tried without success. */
export const failingMsMax = 72 * hour;

type Failure = {
  /** From 1. */
  failures: number;
  /** What the receiver asked for. */
  retryAfterMs?: number | undefined;
  /** Returns numbers from 0 to 1. */
  random: () => number;
};

/** Returns the pause after a failure, at random up to a bound that grows, so that endpoints that failed together do not return together. */
export function pauseAfter({ failures, retryAfterMs = 0, random }: Failure): number {
  const boundMs = pausesMs[failures - 1] ?? longestMs;
  return Math.max(shortestMs, Math.round(random() * boundMs), Math.min(retryAfterMs, retryAfterMsMax));
}
