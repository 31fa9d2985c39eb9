import type { UsageRow } from '../../usage/usage-report.ts';
import type { ChartSeries } from '../charts/draw-chart.ts';
import { rankedSeries, type Steps } from '../charts/steps.ts';

/** The measures of the chart and their labels. */
export const measures = { cost: 'Cost', chargedTokens: 'Tokens', requests: 'Requests' } as const;
export type Measure = keyof typeof measures;

/** What the parts of a bar can stand for. */
export type Part = 'model' | 'key' | 'endpoint';

type Wishes = Steps & {
  rows: readonly UsageRow[];
  part: Part;
  measure: Measure;
  /** Of a value of the part. */
  nameOf: (value: string | null) => string;
};

/** The usage of each time by the values of a part, the largest first. */
export function partSeries({ rows, part, measure, nameOf, ...steps }: Wishes): ChartSeries[] {
  return rankedSeries(rows, steps, {
    nameOf: (row) => nameOf(row[part] ?? null),
    amountOf: (row) => Number(row[measure] ?? 0),
  });
}
