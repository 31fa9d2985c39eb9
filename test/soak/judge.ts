import { median } from '../bench/measure.ts';

/** What stood somewhere before and after the traffic, in one unit; more than `allowed` on top of `before` is a leak. */
export type Figure = {
  what: string;
  before: number;
  after: number;
  allowed: number;
  leaks: boolean;
  /** Of memory: what each request would have to leave behind for this to be seen. */
  seenFromBytes?: number;
};

/** Of one process while there was traffic, sample after sample; `heapMiB` is empty where it has no such heap. */
export type Course = { residentMiB: readonly number[]; heapMiB: readonly number[] };

/** How many requests came to the process meanwhile, and what each of them may leave behind for good reasons. */
export type Passed = { requests: number; keptBytes?: number };

/** What a process holds open, and what Redis keeps, while nothing is going on. */
export type Rest = Record<string, number>;

/** Memory of a process goes up and down with its garbage: a tenth, and so many MiB for what is only now compiled or cached. */
const share = 0.1;
const slackMiB = 16;
const bytesPerMiB = 1_048_576;
/** Connections that are kept for the next request, and timers that have not come yet. */
const slackOpen = 8;

/**
 * The heap by its floor, that which is left after a collection, in the second and in the last quarter; what is resident by its
 * medians there. In the first one it still grows to what it needs. Half of the requests come between the two.
 */
export function judgeMemory(name: string, { residentMiB, heapMiB }: Course, passed: Passed): Figure[] {
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

/** `allowedOf` says what may have come on top of each; left out, what connections and timers come to. */
export function judgeRest(before: Rest, after: Rest, allowedOf: Rest = {}): Figure[] {
  return Object.entries(before).map(([what, value]) =>
    judged({ what, before: value, after: after[what] ?? Number.NaN, allowed: allowedOf[what] ?? slackOpen }),
  );
}

/** What was not measured counts as a leak, too. */
function judged(figure: Omit<Figure, 'leaks'>): Figure {
  return { ...figure, leaks: !(figure.after <= figure.before + figure.allowed) };
}
