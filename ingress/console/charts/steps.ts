import type { UsageRow } from '../../usage/usage-report.ts';
import type { ChartSeries } from './draw-chart.ts';

export const hourSeconds = 3_600;
export const daySeconds = 86_400;

/** Beginnings of equal steps of time, in seconds since 1970. */
export type Steps = { times: readonly number[]; stepSeconds: number };

/** The hour of a time in seconds since 1970, UTC, as reports name it: `2026-11-29T07`. */
export function hourText(seconds: number): string {
  return new Date(seconds * 1_000).toISOString().slice(0, 13);
}

/** The day of a time in seconds since 1970, UTC, as reports name it: `2026-11-29`. */
export function dayText(seconds: number): string {
  return new Date(seconds * 1_000).toISOString().slice(0, 10);
}

/** The beginning of the step that a time is in: of its hour, or of its day (UTC). */
export function stepAt(seconds: number, stepSeconds: number): number {
  return Math.floor(seconds / stepSeconds) * stepSeconds;
}

/** The steps from the one that `from` is in to the one that `to` is in; both are included. */
export function stepsBetween(from: number, to: number, stepSeconds: number): { times: number[]; stepSeconds: number } {
  const first = stepAt(from, stepSeconds);
  const count = (stepAt(to, stepSeconds) - first) / stepSeconds + 1;
  return { times: Array.from({ length: count }, (_, index) => first + index * stepSeconds), stepSeconds };
}

type Amount = (row: UsageRow) => number;

/** A number of each row, summed by step. A step without rows is 0. */
export function sumsBy(rows: readonly UsageRow[], { times, stepSeconds }: Steps, amountOf: Amount): number[] {
  const sums = new Map<number, number>();
  for (const row of rows) {
    const step = stepAt(Date.parse(row.hour ?? row.day ?? '') / 1_000, stepSeconds);
    sums.set(step, (sums.get(step) ?? 0) + amountOf(row));
  }
  return times.map((time) => sums.get(time) ?? 0);
}

/** Series at most. The largest have one each; if there are more, those share the last one. */
const seriesMax = 6;

type Parts = { nameOf: (row: UsageRow) => string; amountOf: Amount };

/** A series of each name, the largest first. Names without an amount have none. */
export function rankedSeries(rows: readonly UsageRow[], steps: Steps, { nameOf, amountOf }: Parts): ChartSeries[] {
  const counted = rows.filter((row) => amountOf(row) > 0);
  const groups = [...Map.groupBy(counted, nameOf)].map(([name, ofName]) => {
    return { name, rows: ofName, total: ofName.reduce((sum, row) => sum + amountOf(row), 0) };
  });
  const ordered = groups.toSorted((one, other) => other.total - one.total);
  const named = ordered.length > seriesMax ? ordered.slice(0, seriesMax - 1) : ordered;
  const rest = ordered.slice(named.length).flatMap((each) => each.rows);
  const shown = [...named, ...(rest.length > 0 ? [{ name: 'others', rows: rest }] : [])];
  return shown.map(({ name, rows: ofName }) => ({ name, values: sumsBy(ofName, steps, amountOf) }));
}

/** Requests by how they ended, those outcomes that there were; an empty chart has the first one. Reports of days have no refused ones. */
export function outcomeSeries(rows: readonly UsageRow[], steps: Steps): ChartSeries[] {
  const all: ChartSeries[] = [
    {
      name: 'completed',
      values: sumsBy(rows, steps, ({ requests, failed, cancelled }) => requests - failed - cancelled),
      tone: 'good',
    },
    { name: 'cancelled', values: sumsBy(rows, steps, ({ cancelled }) => cancelled), tone: 'neutral' },
    { name: 'refused', values: sumsBy(rows, steps, ({ refused = 0 }) => refused), tone: 'warning' },
    { name: 'failed', values: sumsBy(rows, steps, ({ failed }) => failed), tone: 'bad' },
  ];
  return all.filter(({ values }, index) => index === 0 || values.some((value) => value !== 0));
}
