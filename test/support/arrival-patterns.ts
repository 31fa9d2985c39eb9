/** The last attempt and its result. */
export type Attempt = { at: number; admitted: boolean; waitMs: number; tokens: number; index: number };

/** The time of the next attempt, and its tokens. */
export type Arrival = { at: number; tokens: number };

export type ArrivalPattern = {
  name: string;
  /** Whether the pattern sends enough to reach the limit exactly. */
  isGreedy: boolean;
  next: (last: Attempt, random: () => number) => Arrival;
};

const bucketMs = 5_000;
const minuteMs = 60_000;

/** After a refusal the smallest request is sent, so that a large refused request leaves no room unused. */
const sizeAfter = ({ admitted, tokens }: Attempt, random: () => number) =>
  admitted ? 1 + Math.floor(random() * 9) : tokens > 1 ? 1 : 1 + Math.floor(random() * 9);

/** A refused small request is retried after the advertised wait, a refused large one immediately with a small size. */
const timeAfter = ({ at, admitted, waitMs, tokens }: Attempt) => (admitted || tokens > 1 ? at : at + waitMs);

const boundaryAfter = (at: number, everyMs: number) => Math.ceil((at + 1) / everyMs) * everyMs;

/** Arrivals chosen to get more than the limit out of a minute, and natural ones. */
export const arrivalPatterns: readonly ArrivalPattern[] = [
  {
    name: 'as much as is admitted, and again after exactly the advertised wait',
    isGreedy: true,
    next: (last, random) => ({ at: timeAfter(last), tokens: sizeAfter(last, random) }),
  },
  {
    name: 'the same, a few milliseconds between any two',
    isGreedy: true,
    next: (last, random) => ({ at: timeAfter(last) + Math.floor(random() * 4), tokens: sizeAfter(last, random) }),
  },
  {
    name: 'in bursts, around every boundary of 5 s',
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
    name: 'just before a charge expires, just when it does, and just after',
    isGreedy: true,
    next(last, random) {
      if (last.admitted || last.tokens > 1) return { at: last.at, tokens: sizeAfter(last, random) };
      const at = last.waitMs > 2 ? last.at + last.waitMs - 1 : last.at + 1;
      return { at: at + (random() < 0.1 ? 2 : 0), tokens: 1 };
    },
  },
  {
    name: 'at both ends of every 5 s, which keeps each charge the longest',
    isGreedy: true,
    next(last, random) {
      const isAtEnd = last.at % bucketMs === bucketMs - 1;
      const edge = boundaryAfter(last.at, bucketMs);
      const isLeft = last.index % 4 !== 0;
      return { at: isLeft ? last.at : isAtEnd ? edge : edge - 1, tokens: sizeAfter(last, random) };
    },
  },
  {
    name: 'more and more often, then rarely again',
    isGreedy: true,
    next: (last, random) => ({
      at: last.at + Math.floor(5_000 * (1 - (last.index % 200) / 200) ** 6),
      tokens: sizeAfter(last, random),
    }),
  },
  {
    name: 'at random, more than the limit',
    isGreedy: true,
    next: (last, random) => ({
      at: last.at + Math.floor(-Math.log(1 - random()) * (random() < 0.05 ? 20_000 : 500)),
      tokens: sizeAfter(last, random),
    }),
  },
  {
    name: 'one by one, fewer than the limit',
    isGreedy: false,
    next: ({ at }, random) => ({ at: at + 5_500 + Math.floor(random() * 2_000), tokens: 1 }),
  },
];
