import type { FleetHistory } from '../../routes/fleet-history.ts';
import type { UsageReport } from '../../usage/usage-report.ts';
import { formatCost, formatCount } from '../page/format.ts';
import { isServiceError } from '../requests/code-words.ts';

/** The times that can be chosen, and their labels. */
export type RangeName = '1h' | '24h' | '7d';
export const rangeLabels: Readonly<Record<RangeName, string>> = { '1h': '1 h', '24h': '24 h', '7d': '7 days' };

const hourSeconds = 3_600;
const hours: Readonly<Record<RangeName, number>> = { '1h': 1, '24h': 24, '7d': 168 };

/** The query of the fleet's history: steps of five minutes of an hour, else hours. */
export function historyQuery(range: RangeName): string {
  return range === '1h' ? 'step=minutes&steps=12' : `step=hours&steps=${hours[range]}`;
}

/** The first hour of usage in a range, in seconds since 1970. Of the last hour, usage has the part since the full hour before. */
export function firstHour(range: RangeName, now: number): number {
  const back = range === '1h' ? 1 : hours[range] - 1;
  return Math.floor(now / hourSeconds) * hourSeconds - back * hourSeconds;
}

/** A line needs more than one point: of the last hour, it is that of the last day. */
export function lineHours(range: RangeName, now: number): { start: string; end: string } {
  return { start: hourText(firstHour(range === '1h' ? '24h' : range, now)), end: hourText(now) };
}

/** `2026-11-29T07`, as reports name an hour. */
export function hourText(seconds: number): string {
  return new Date(seconds * 1_000).toISOString().slice(0, 13);
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

/** `2.1 %`. */
export function formatPercent(share: number): string {
  const percent = 100 * share;
  return `${percent > 0 && percent < 9.95 ? percent.toFixed(1) : Math.round(percent)} %`;
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
  const costOf = ({ cost = '0', chargedTokens }: UsageReport['data'][number]) =>
    currency === undefined ? chargedTokens : Number(cost);
  const byHour = new Map(data.map((row) => [Date.parse(row.hour ?? '') / 1_000, costOf(row)]));
  const [from, to] = [start, end].map((hour) => Date.parse(`${hour}:00:00Z`) / 1_000) as [number, number]; // of two
  const times = Array.from({ length: (to - from) / hourSeconds + 1 }, (_, index) => from + index * hourSeconds);
  const costAt = (time: number) => byHour.get(time) ?? 0;
  return {
    currency,
    total: times.filter((time) => time >= first).reduce((sum, time) => sum + costAt(time), 0),
    line: times.map(costAt),
  };
}

export function formatAmount(value: number, currency: string | undefined): string {
  return currency === undefined ? formatCount(Math.round(value)) : formatCost(value, currency);
}

/** What a month comes to, if the rest of it is like the part that has passed. Nothing on its first day, which says little. */
export function monthForecast(spent: number, now: number): number | undefined {
  const date = new Date(now * 1_000);
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
  const [first, next] = [Date.UTC(year, month), Date.UTC(year, month + 1)].map((ms) => ms / 1_000) as [number, number]; // of two
  const passed = now - first;
  return passed < 86_400 ? undefined : (spent * (next - first)) / passed;
}
