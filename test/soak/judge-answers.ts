import type { Tally } from './traffic.ts';

/** Faults of ours, and what broke in the traffic itself. */
const mustNotBe = /: (500|502|504)$|cut without a word|batch: (failed|expired)|^failed: /;
const answeredShareMin = 0.8;
/** A moment when the ill model server and a change meet. */
const unavailableShareMax = 0.01;

/** What was wrong with the answers, in words; of those that nobody left, as many have to be what was asked for. */
export function wrongAnswers(tally: Tally): string[] {
  const asked = Object.entries(tally).filter(([what]) => /^(whole|streamed): (?!left)/.test(what));
  const shareOf = (matches: (what: string) => boolean) =>
    sum(asked.filter(([what]) => matches(what))) / Math.max(1, sum(asked));
  const [answered, unavailable] = [
    shareOf((what) => what.endsWith(': 200')),
    shareOf((what) => what.includes(': 503')),
  ];
  return [
    ...Object.keys(tally).filter((what) => mustNotBe.test(what)),
    ...(answered < answeredShareMin ? [`only ${percent(answered)} of whole and streamed answers are 200`] : []),
    ...(unavailable > unavailableShareMax ? [`${percent(unavailable)} of whole and streamed answers are 503`] : []),
  ];
}

function sum(entries: readonly (readonly [string, number])[]): number {
  return entries.reduce((total, [, count]) => total + count, 0);
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)}%`;
}
