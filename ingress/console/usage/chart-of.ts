import type { UsageRow } from '../../usage/usage-report.ts';
import { allDaysOf, type DayRange } from './day-range.ts';

/** The measures of the chart and their labels. */
export const measures = { chargedTokens: 'tokens charged', requests: 'requests' } as const;
export type Measure = keyof typeof measures;

/** The segment of one model in the stacked bar of one day, from `from` to `to`, drawn as the series of this number. */
type Part = { model: string; from: number; to: number; series: number };
type Day = { day: string; total: number; parts: Part[] };
export type Chart = {
  /** Every day of the range, including days without usage. */
  days: Day[];
  series: { model: string; series: number }[];
  max: number;
  ticks: number[];
};

/** The most used models have a series each; the others share the last one. */
const seriesMax = 6;
const others = 'other models';
/** Of rows that are not by model. */
const allModels = 'all models';

export function chartOf({
  range,
  rows: all,
  measure,
}: {
  range: DayRange;
  rows: readonly UsageRow[];
  measure: Measure;
}): Chart {
  const byModel = Map.groupBy(all, modelOf);
  const sum = (rows: readonly UsageRow[]) => rows.reduce((total, row) => total + row[measure], 0);
  const ordered = [...byModel].toSorted(([, one], [, other]) => sum(other) - sum(one)).map(([model]) => model);
  const shared = ordered.length > seriesMax;
  const named = ordered.slice(0, shared ? seriesMax - 1 : seriesMax);
  const names = shared ? [...named, others] : named;

  const byDay = Map.groupBy(all, ({ day }) => day);
  const charted = allDaysOf(range).map((day) => {
    const rows = Map.groupBy(byDay.get(day) ?? [], (row) => (named.includes(modelOf(row)) ? modelOf(row) : others));
    let total = 0;
    const parts = names.flatMap((model, series) => {
      const from = total;
      total += sum(rows.get(model) ?? []);
      return total > from ? [{ model, from, to: total, series }] : [];
    });
    return { day, total, parts };
  });
  const ticks = ticksUpTo(Math.max(...charted.map(({ total }) => total)));
  return {
    days: charted,
    series: names.map((model, series) => ({ model, series })),
    max: ticks.at(-1) ?? 1,
    ticks,
  };
}

function modelOf({ model = allModels }: UsageRow): string {
  return model;
}

/** Round values from 0 to at least `most`, in four or five steps. */
function ticksUpTo(most: number): number[] {
  const rough = Math.max(most, 4) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step =
    ([1, 2, 2.5, 5].find((factor) => factor * power >= rough && Number.isInteger(factor * power)) ?? 10) * power;
  const count = Math.ceil(Math.max(most, 1) / step);
  return Array.from({ length: count + 1 }, (_, index) => index * step);
}
