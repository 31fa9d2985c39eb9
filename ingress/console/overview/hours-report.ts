import type { UsageReport, UsageRow } from '../../usage/usage-report.ts';
import type { ChartSeries } from '../charts/draw-chart.ts';
import {
  daySeconds,
  hourSeconds,
  hourText,
  outcomeSeries,
  rankedSeries,
  type Steps,
  stepsBetween,
} from '../charts/steps.ts';

/** What the overview shows at once: the hours up to now. Longer ones are drawn by days. */
export const spans = { day: '24 h', week: '7 days', month: '30 days' } as const;
export type Span = keyof typeof spans;
const hoursOf: Record<Span, number> = { day: 24, week: 168, month: 720 };
const spanWords: Record<Span, string> = { day: '24 hours', week: '7 days', month: '30 days' };

export const chartedBy = { outcome: 'outcome', model: 'model', key: 'key', cost: 'cost' } as const;
export type ChartedBy = keyof typeof chartedBy;

export function wordsOfSpan(span: Span): string {
  return spanWords[span];
}

/** The hours of a span that ends with the present one, as the API has them; or of the span before it. `now`: milliseconds since 1970. */
export function hoursIn(span: Span, now: number, spansBefore = 0): { start: string; end: string } {
  const last = now / 1_000 - spansBefore * hoursOf[span] * hourSeconds;
  return { start: hourText(last - (hoursOf[span] - 1) * hourSeconds), end: hourText(last) };
}

/** The hours of a span, or its days (UTC) if it is long. */
export function stepsOfSpan(span: Span, now: number): { times: number[]; stepSeconds: number } {
  const last = now / 1_000;
  return stepsBetween(last - (hoursOf[span] - 1) * hourSeconds, last, span === 'month' ? daySeconds : hourSeconds);
}

/** The report that a chart by model, key or cost draws: of a long span by days, because one by hours could have too many rows. */
export function chartQuery({ span, by }: { span: Span; by: ChartedBy }, now: number): URLSearchParams {
  const { start, end } = hoursIn(span, now);
  const [unit, length] = span === 'month' ? ['day', 10] : ['hour', 13];
  const groups = `${unit},${by === 'key' ? 'key' : 'model'}`;
  return new URLSearchParams({ start: start.slice(0, length), end: end.slice(0, length), group_by: groups });
}

/** How many requests were sent: those that were admitted, and those that were refused. */
export function sentIn({ requests, refused = 0 }: Pick<UsageReport['total'], 'requests' | 'refused'>): number {
  return requests + refused;
}

type SeriesQuery = Steps & { by: ChartedBy; nameOfKey: (id: string | null) => string };

/** The series of a chart: requests by outcome, model or key, or cost by model. */
export function seriesBy(rows: readonly UsageRow[], { by, nameOfKey, ...steps }: SeriesQuery): ChartSeries[] {
  if (by === 'outcome') return outcomeSeries(rows, steps);
  return rankedSeries(rows, steps, {
    nameOf: by === 'key' ? ({ key = null }) => nameOfKey(key) : ({ model = '' }) => model,
    amountOf: by === 'cost' ? ({ cost = '0' }) => Number(cost) : ({ requests }) => requests,
  });
}
