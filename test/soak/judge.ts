import { median } from '../bench/measure.ts';

/** A value before and after the traffic, in one unit. It leaks if `after` exceeds `before` by more than `allowed`. */
export type Figure = {
  what: string;
  before: number;
  after: number;
  allowed: number;
  leaks: boolean;
  /** For memory: how much each request must leave behind to show as a leak. */
  seenFromBytes?: number;
};

/** The samples of one process during the traffic. `heapMiB` is empty if the process has no such heap. */
export type Course = { residentMiB: readonly number[]; heapMiB: readonly number[] };

/** How many requests the process handled in that time, and what each of them may legitimately leave behind. */
export type Workload = { requests: number; keptBytes?: number };

/** The open handles of processes, and the contents of Redis, while there is no traffic. */
export type Rest = Record<string, number>;

/** The memory of a process varies with its garbage: allows a tenth, and this many MiB for code and caches that are loaded late. */
const share = 0.1;
const slackMiB = 16;
const bytesPerMiB = 1_048_576;
/** Connections that are kept for the next request, and timers that are still pending. */
const slackOpen = 8;

/**
 * Compares the second and the last quarter: the heap by its floor, which is what remains after a collection, and resident memory by its
 * median. In the first quarter memory still grows to its normal size. Half of the requests are between the two.
 */
export function judgeMemory(name: string, { residentMiB, heapMiB }: Course, passed: Workload): Figure[] {
  const between = passed.requests / 2;
  const keptMiB = (between * (passed.keptBytes ?? 0)) / bytesPerMiB;
  const quarters = (samples: readonly number[], of: (quarter: readonly number[]) => number) => {
    const length = Math.max(1, Math.floor(samples.length / 4));
    return { before: of(samples.slice(length, 2 * length)), after: of(samples.slice(-length)) };
  };
  const judge = (what: string, figures: { before: number; after: number }) => {
    const allowed = share * figures.before + slackMiB + keptMiB;
    const seenFromBytes = Math.ceil((allowed * bytesPerMiB) / Math.max(1, between));
    return judged({ what: `${name}: ${what}`, ...figures, allowed, seenFromBytes });
  };
  const floors = quarters(heapMiB, (quarter) => Math.min(...quarter));
  return [
    ...(heapMiB.length > 0 ? [judge('heap after collection, MiB', floors)] : []),
    judge('resident, MiB', quarters(residentMiB, median)),
  ];
}

/** `allowedOf` is the allowed increase of each value. Default: a few connections and timers. */
export function judgeRest(before: Rest, after: Rest, allowedOf: Rest = {}): Figure[] {
  return Object.entries(before).map(([what, value]) =>
    judged({ what, before: value, after: after[what] ?? Number.NaN, allowed: allowedOf[what] ?? slackOpen }),
  );
}

/** A missing value counts as a leak, too. */
function judged(figure: Omit<Figure, 'leaks'>): Figure {
  return { ...figure, leaks: !(figure.after <= figure.before + figure.allowed) };
}
