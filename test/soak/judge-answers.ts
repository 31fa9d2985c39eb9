import type { Tally } from './traffic.ts';

/** Internal errors, and errors of the traffic itself. */
const wrong = /: (500|502|504)$|cut off without an error|batch: (failed|expired)|^failed: /;
const answeredShareMin = 0.8;
/** Requests can fail for a moment if the failing model server and a change coincide. */
const unavailableShareMax = 0.01;

/** Returns what was wrong with the answers, as messages. Of the requests that no client left, enough must have succeeded. */
export function wrongAnswers(tally: Tally): string[] {
  const asked = Object.entries(tally).filter(([what]) => /^(whole|streamed): (?!left)/.test(what));
  const shareOf = (matches: (what: string) => boolean) =>
    sum(asked.filter(([what]) => matches(what))) / Math.max(1, sum(asked));
  const [answered, unavailable] = [
    shareOf((what) => what.endsWith(': 200')),
    shareOf((what) => what.includes(': 503')),
  ];
  return [
    ...Object.keys(tally).filter((what) => wrong.test(what)),
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
