import type { FleetHistory } from '../../routes/fleet-history.ts';
import type { UsageReport, UsageRow } from '../../usage/usage-report.ts';
import { hourSeconds, hourText, stepAt, stepsBetween, sumsBy } from '../charts/steps.ts';
import { formatCost, formatCount } from '../page/format.ts';
import { isServiceError } from '../requests/code-words.ts';

/** The times that can be chosen, and their labels. */
export type RangeName = '1h' | '24h' | '7d';
export const rangeLabels: Readonly<Record<RangeName, string>> = { '1h': '1 h', '24h': '24 h', '7d': '7 days' };

const hours: Readonly<Record<RangeName, number>> = { '1h': 1, '24h': 24, '7d': 168 };

/** The query of the fleet's history: steps of five minutes of an hour, else hours. */
export function historyQuery(range: RangeName): string {
  return range === '1h' ? 'step=minutes&steps=12' : `step=hours&steps=${hours[range]}`;
}

/** The first hour of usage in a range, in seconds since 1970. Of the last hour, usage has the part since the full hour before. */
export function firstHour(range: RangeName, now: number): number {
  const back = range === '1h' ? 1 : hours[range] - 1;
  return stepAt(now, hourSeconds) - back * hourSeconds;
}

/** A line needs more than one point: of the last hour, it is that of the last day. */
export function lineHours(range: RangeName, now: number): { start: string; end: string } {
  return { start: hourText(firstHour(range === '1h' ? '24h' : range, now)), end: hourText(now) };
}

type Step = FleetHistory['data'][number];

/** Each step a second; the last one has begun `now` minus its start ago. */
export function ratesOf({ data, step_seconds: seconds }: FleetHistory, now: number): (number | null)[] {
  return data.map(({ start, requests }) => {
    const passed = Math.min(seconds, now - Date.parse(start) / 1_000);
    return passed < shortestSeconds ? null : requests / passed;
  });
}

/** Of the last two steps: the present one alone may have only begun. */
export function rateNow({ data, step_seconds: seconds }: FleetHistory, now: number): number {
  const last = data.slice(-2);
  const begun = Date.parse(last[0]?.start ?? '') / 1_000;
  const passed = Math.min(last.length * seconds, Math.max(shortestSeconds, now - begun));
  return last.reduce((sum, { requests }) => sum + requests, 0) / (passed || 1);
}

/** The time that `rateNow` is about. */
export function rateWords({ step_seconds: seconds }: Pick<FleetHistory, 'step_seconds'>): string {
  return seconds < hourSeconds
    ? `in the last ${(2 * seconds) / 60} min`
    : `in the last ${(2 * seconds) / hourSeconds} h`;
}

/** Less than this of a step says nothing of its rate. */
const shortestSeconds = 20;

/** The errors of the service by their codes, most first, and how many errors of clients there are. */
export function errorsOf({ errors }: Pick<Step, 'errors'>): {
  ofService: [code: string, count: number][];
  ofClients: number;
} {
  const ordered = Object.entries(errors).toSorted(([, one], [, other]) => other - one);
  const ofClients = ordered.filter(([code]) => !isServiceError(code));
  return {
    ofService: ordered.filter(([code]) => isServiceError(code)),
    ofClients: ofClients.reduce((sum, [, count]) => sum + count, 0),
  };
}

/** The share of requests with an error of the service; null without requests. */
export function errorShare(step: Pick<Step, 'errors' | 'requests'>): number | null {
  if (step.requests === 0) return null;
  return errorsOf(step).ofService.reduce((sum, [, count]) => sum + count, 0) / step.requests;
}

/** The step with the longest wait, if any has waited. */
export function longestWait({ data }: FleetHistory): Step | undefined {
  const [longest] = data.toSorted((one, other) => other.longest_wait_ms - one.longest_wait_ms);
  return longest === undefined || longest.longest_wait_ms === 0 ? undefined : longest;
}

type Costs = { currency: string | undefined; total: number; line: number[] };

/** The costs of each hour, those without usage included, and their sum since `first`. Without prices these are charged tokens. */
export function costsOf(report: UsageReport, first: number): Costs {
  const { currency, data, start, end } = report;
  const [from, to] = [start, end].map((hour) => Date.parse(`${hour}:00:00Z`) / 1_000) as [number, number]; // of two
  const steps = stepsBetween(from, to, hourSeconds);
  const line = sumsBy(data, steps, amountIn(currency));
  return {
    currency,
    total: line.filter((_, index) => (steps.times[index] ?? 0) >= first).reduce((sum, cost) => sum + cost, 0),
    line,
  };
}

/** The cost of a row, or its charged tokens if there are no prices. */
export function amountIn(currency: string | undefined): (row: UsageRow) => number {
  return ({ cost = '0', chargedTokens }) => (currency === undefined ? chargedTokens : Number(cost));
}

export function formatAmount(value: number, currency: string | undefined): string {
  return currency === undefined ? formatCount(Math.round(value)) : formatCost(value, currency);
}
