import type { UsageReport, UsageRow } from '../../usage/usage-report.ts';
import type { ChartSeries } from '../charts/draw-chart.ts';

/** What the overview shows at once: the hours up to now. Longer ones are drawn by days. */
export const spans = { day: '24 h', week: '7 days', month: '30 days' } as const;
export type Span = keyof typeof spans;
const hoursOf: Record<Span, number> = { day: 24, week: 168, month: 720 };
const spanWords: Record<Span, string> = { day: '24 hours', week: '7 days', month: '30 days' };

export const chartedBy = { outcome: 'outcome', model: 'model', key: 'key', cost: 'cost' } as const;
export type ChartedBy = keyof typeof chartedBy;

const hourMs = 3_600_000;

export function wordsOfSpan(span: Span): string {
  return spanWords[span];
}

/** The hours of a span that ends with the present one, as the API has them; or of the span before it. */
export function hoursIn(span: Span, now: number, spansBefore = 0): { start: string; end: string } {
  const last = now - spansBefore * hoursOf[span] * hourMs;
  const hourAt = (time: number) => new Date(time).toISOString().slice(0, 13);
  return { start: hourAt(last - (hoursOf[span] - 1) * hourMs), end: hourAt(last) };
}

/** Beginnings of the hours of a span, or of its days (UTC) if it is long, in seconds since 1970. */
export function stepsOf(span: Span, now: number): { times: number[]; stepSeconds: number } {
  const { start, end } = hoursIn(span, now);
  const stepSeconds = span === 'month' ? 86_400 : 3_600;
  const first = stepAt(`${start}:00Z`, stepSeconds);
  const count = (stepAt(`${end}:00Z`, stepSeconds) - first) / stepSeconds + 1;
  return { times: Array.from({ length: count }, (_, index) => first + index * stepSeconds), stepSeconds };
}

function stepAt(time: string, stepSeconds: number): number {
  return Math.floor(Date.parse(time) / 1_000 / stepSeconds) * stepSeconds;
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

/** A number of each row, summed by step. A step without rows is 0. */
export function sumsBy(
  rows: readonly UsageRow[],
  { times, stepSeconds }: { times: readonly number[]; stepSeconds: number },
  amountOf: (row: UsageRow) => number,
): number[] {
  const sums = new Map<number, number>();
  for (const row of rows) {
    const step = stepAt(row.hour ?? row.day ?? '', stepSeconds);
    sums.set(step, (sums.get(step) ?? 0) + amountOf(row));
  }
  return times.map((time) => sums.get(time) ?? 0);
}

/** The most used values of a group have a series each; the others share the last one. */
const seriesMax = 5;

type SeriesQuery = {
  by: ChartedBy;
  times: readonly number[];
  stepSeconds: number;
  nameOfKey: (id: string | null) => string;
};

/** The series of a chart: requests by outcome, model or key, or cost by model. */
export function seriesOf(rows: readonly UsageRow[], { by, nameOfKey, ...steps }: SeriesQuery): ChartSeries[] {
  if (by === 'outcome') return outcomes(rows, steps);
  const amountOf = by === 'cost' ? ({ cost = '0' }: UsageRow) => Number(cost) : ({ requests }: UsageRow) => requests;
  const nameOf = by === 'key' ? ({ key = null }: UsageRow) => nameOfKey(key) : ({ model = '' }: UsageRow) => model;
  const counted = rows.filter((row) => amountOf(row) > 0);
  const groups = [...Map.groupBy(counted, nameOf)].map(([name, ofName]) => {
    return { name, rows: ofName, total: ofName.reduce((sum, row) => sum + amountOf(row), 0) };
  });
  const ordered = groups.toSorted((one, other) => other.total - one.total);
  const [named, rest] = [ordered.slice(0, seriesMax), ordered.slice(seriesMax)];
  const shown = rest.length === 0 ? named : [...named, { name: 'others', rows: rest.flatMap((each) => each.rows) }];
  return shown.map(({ name, rows: ofName }) => ({ name, values: sumsBy(ofName, steps, amountOf) }));
}

function outcomes(rows: readonly UsageRow[], steps: Pick<SeriesQuery, 'times' | 'stepSeconds'>): ChartSeries[] {
  const answered = ({ requests, failed, cancelled }: UsageRow) => requests - failed - cancelled;
  const all: ChartSeries[] = [
    { name: 'completed', values: sumsBy(rows, steps, answered), tone: 'good' },
    { name: 'client left', values: sumsBy(rows, steps, ({ cancelled }) => cancelled), tone: 'neutral' },
    { name: 'refused', values: sumsBy(rows, steps, ({ refused = 0 }) => refused), tone: 'warning' },
    { name: 'failed', values: sumsBy(rows, steps, ({ failed }) => failed), tone: 'bad' },
  ];
  return all.filter(({ name, values }) => name === 'completed' || values.some((value) => value !== 0));
}

/** The cost of the whole month, if its rest is like the last week; undefined without prices. */
export function forecastOf(
  { month, week }: { month: UsageReport['total']; week: UsageReport['total'] },
  now: number,
): number | undefined {
  if (month.cost === undefined) return undefined;
  const date = new Date(now);
  const end = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1);
  const daysLeft = (end - now) / 86_400_000;
  return Number(month.cost) + (Number(week.cost ?? 0) / 7) * daysLeft;
}

/** When an allowance is used up, if it is used on as in the last week: milliseconds since 1970. Undefined if not before it is renewed. */
export function usedUpAt(
  { remaining, resetDate }: { remaining: number | null; resetDate: string },
  weekTokens: number,
  now: number,
): number | undefined {
  if (remaining === null || remaining === 0 || weekTokens === 0) return undefined;
  const at = now + (remaining / weekTokens) * 7 * 86_400_000;
  return at < Date.parse(`${resetDate}T00:00:00Z`) ? at : undefined;
}

/** The change from one number to another: `▲ 12 %`. Undefined if there was nothing before. */
export function changeWords(value: number, before: number): string | undefined {
  if (before === 0) return undefined;
  const percent = Math.round((100 * (value - before)) / before);
  return percent === 0 ? 'as many' : `${percent > 0 ? '▲' : '▼'} ${Math.abs(percent)} %`;
}
