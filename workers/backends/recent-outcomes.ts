/** How many calls of a backend ended lately. */
export type RecentOutcomes = { answered: number; failed: number };

const bucketMs = 10_000;
/** About the last minute. */
const bucketsMax = 6;

/** Counts the outcomes of calls over about the last minute. `now`: milliseconds of a monotonic clock. */
export function createRecentOutcomes(now: () => number) {
  let buckets: { index: number; answered: number; failed: number }[] = [];

  function forgetOld(): number {
    const index = Math.floor(now() / bucketMs);
    if (buckets[0] !== undefined && buckets[0].index <= index - bucketsMax)
      buckets = buckets.filter((bucket) => bucket.index > index - bucketsMax);
    return index;
  }

  return {
    note(outcome: keyof RecentOutcomes): void {
      const index = forgetOld();
      let latest = buckets.at(-1);
      if (latest?.index !== index) {
        latest = { index, answered: 0, failed: 0 };
        buckets.push(latest);
      }
      latest[outcome] += 1;
    },
    sum(): RecentOutcomes {
      forgetOld();
      const sum = { answered: 0, failed: 0 };
      for (const { answered, failed } of buckets) {
        sum.answered += answered;
        sum.failed += failed;
      }
      return sum;
    },
  };
}
