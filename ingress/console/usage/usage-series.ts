import type { UsageRow } from '../../usage/usage-report.ts';
import type { ChartSeries } from '../charts/draw-chart.ts';

/** The measures of the chart and their labels. */
export const measures = { cost: 'Cost', chargedTokens: 'Tokens', requests: 'Requests' } as const;
export type Measure = keyof typeof measures;

/** What the parts of a bar can stand for. */
export type Part = 'model' | 'key' | 'endpoint';

/** The largest have a series each; the others share the last one. */
const seriesMax = 6;

type Wishes = {
  times: readonly number[];
  rows: readonly UsageRow[];
  part: Part;
  measure: Measure;
  /** Of a value of the part. */
  nameOf: (value: string | null) => string;
};

/** The usage of each time by the values of a part, the largest first. */
export function seriesOf({ times, rows, part, measure, nameOf }: Wishes): ChartSeries[] {
  const amount = (row: UsageRow) => Number(row[measure] ?? 0);
  const used = rows.filter((row) => amount(row) > 0);
  const byName = Map.groupBy(used, (row) => nameOf(row[part] ?? null));
  const sums = [...byName].map(([name, all]) => ({ name, all, sum: all.reduce((sum, row) => sum + amount(row), 0) }));
  const ordered = sums.toSorted((one, other) => other.sum - one.sum);
  const named = ordered.length > seriesMax ? ordered.slice(0, seriesMax - 1) : ordered;
  const rest = ordered.slice(named.length).flatMap(({ all }) => all);
  const parts = [...named, ...(rest.length > 0 ? [{ name: 'others', all: rest }] : [])];
  return parts.map(({ name, all }) => {
    const byTime = Map.groupBy(all, ({ hour, day }) => Date.parse(hour ?? day ?? '') / 1_000);
    return {
      name,
      values: times.map((time) => (byTime.get(time) ?? []).reduce((sum, row) => sum + amount(row), 0)),
    };
  });
}
