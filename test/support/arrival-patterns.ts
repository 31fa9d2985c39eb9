/** What became of the last attempt, and what it was. */
export type Attempt = { at: number; admitted: boolean; waitMs: number; tokens: number; index: number };

/** When the next attempt comes, and how many tokens it asks for. */
export type Arrival = { at: number; tokens: number };

export type ArrivalPattern = {
  name: string;
  /** Whether it asks for so much that the limit must be met to the last one. */
  isGreedy: boolean;
  next: (last: Attempt, random: () => number) => Arrival;
};

const bucketMs = 5_000;
const minuteMs = 60_000;

/** After a refusal the smallest request there is, so that no room is left by one that was too large for it. */
const sizeAfter = ({ admitted, tokens }: Attempt, random: () => number) =>
  admitted ? 1 + Math.floor(random() * 9) : tokens > 1 ? 1 : 1 + Math.floor(random() * 9);

/** A refused small request goes on at the time that it was told; one that was large is tried again small, at once. */
const timeAfter = ({ at, admitted, waitMs, tokens }: Attempt) => (admitted || tokens > 1 ? at : at + waitMs);

const boundaryAfter = (at: number, everyMs: number) => Math.ceil((at + 1) / everyMs) * everyMs;

/** Arrivals as somebody chooses them who wants more than the limit out of a minute, and as they come by themselves. */
export const arrivalPatterns: readonly ArrivalPattern[] = [
  {
    name: 'as much as passes, and again exactly when told',
    isGreedy: true,
    next: (last, random) => ({ at: timeAfter(last), tokens: sizeAfter(last, random) }),
  },
  {
    name: 'the same, a few milliseconds between any two',
    isGreedy: true,
    next: (last, random) => ({ at: timeAfter(last) + Math.floor(random() * 4), tokens: sizeAfter(last, random) }),
  },
  {
    name: 'in bursts, around every edge of 5 s',
    isGreedy: true,
    next(last, random) {
      const edge = boundaryAfter(last.at + 1, bucketMs);
      const isLeft = last.index % 30 !== 0;
      return { at: isLeft ? last.at : edge - 1 + (last.index % 3), tokens: sizeAfter(last, random) };
    },
  },
  {
    name: 'in bursts at the end of one minute and at the start of the next',
    isGreedy: true,
    next(last, random) {
      const isLeft = last.index % 60 !== 0;
      const edge = boundaryAfter(last.at, minuteMs);
      const isAtEnd = last.at % minuteMs === minuteMs - 1;
      return { at: isLeft ? last.at : isAtEnd ? edge : edge - 1, tokens: sizeAfter(last, random) };
    },
  },
  {
    name: 'just before something leaves, just when it does, and just after',
    isGreedy: true,
    next(last, random) {
      if (last.admitted || last.tokens > 1) return { at: last.at, tokens: sizeAfter(last, random) };
      const at = last.waitMs > 2 ? last.at + last.waitMs - 1 : last.at + 1;
      return { at: at + (random() < 0.1 ? 2 : 0), tokens: 1 };
    },
  },
  {
    name: 'at both ends of every 5 s, which keeps all of it for the longest',
    isGreedy: true,
    next(last, random) {
      const isAtEnd = last.at % bucketMs === bucketMs - 1;
      const edge = boundaryAfter(last.at, bucketMs);
      const isLeft = last.index % 4 !== 0;
      return { at: isLeft ? last.at : isAtEnd ? edge : edge - 1, tokens: sizeAfter(last, random) };
    },
  },
  {
    name: 'more and more often, then seldom again',
    isGreedy: true,
    next: (last, random) => ({
      at: last.at + Math.floor(5_000 * (1 - (last.index % 200) / 200) ** 6),
      tokens: sizeAfter(last, random),
    }),
  },
  {
    name: 'at random, more than may pass',
    isGreedy: true,
    next: (last, random) => ({
      at: last.at + Math.floor(-Math.log(1 - random()) * (random() < 0.05 ? 20_000 : 500)),
      tokens: sizeAfter(last, random),
    }),
  },
  {
    name: 'one by one, fewer than may pass',
    isGreedy: false,
    next: ({ at }, random) => ({ at: at + 5_500 + Math.floor(random() * 2_000), tokens: 1 }),
  },
];
