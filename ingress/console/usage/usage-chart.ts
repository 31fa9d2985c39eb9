import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { UsageRow } from '../../usage/usage-schemas.ts';
import { Choice } from '../controls/choice.ts';
import { formatCount, formatDay, formatShort, formatShortDay } from '../page/format.ts';
import { type Chart, chartOf, type Measure, measures } from './chart-of.ts';
import type { DayRange } from './day-range.ts';
import { SeriesBox, SeriesPatterns, SeriesSwatch } from './series.ts';

const width = 640;
const height = 220;
const left = 60;
const bottom = 30;
const top = 8;
/** At most so many days have a label. */
const labelsMax = 5;

/** One stacked bar per day, with a colour and a pattern for each model. The table below has the numbers. */
export function UsageChart({ range, rows }: { range: DayRange; rows: readonly UsageRow[] }) {
  const [measure, setMeasure] = useState<Measure>('chargedTokens');
  const chart = chartOf({ range, rows, measure });
  return h(
    'figure',
    { class: 'chart' },
    h(Choice<Measure>, { legend: 'Show', options: measures, chosen: measure, choose: setMeasure }),
    h(
      'svg',
      { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': describe(chart, measure) },
      h(SeriesPatterns, null),
      h(Axis, { chart }),
      h(Bars, { chart, measure }),
    ),
    h(
      'figcaption',
      null,
      h(
        'ul',
        { class: 'legend' },
        chart.series.map(({ model, series }) => h('li', { key: model }, h(SeriesSwatch, { series }), model)),
      ),
    ),
  );
}

function heightOf(value: number, { max }: Chart): number {
  return top + (height - top - bottom) * (1 - value / max);
}

function Axis({ chart }: { chart: Chart }) {
  return h(
    'g',
    null,
    chart.ticks.map((tick) => {
      const y = heightOf(tick, chart);
      return h(
        'g',
        { key: tick },
        h('line', { class: 'grid', x1: left, x2: width, y1: y, y2: y }),
        h('text', { x: left - 6, y: y + 4, 'text-anchor': 'end' }, formatShort(tick)),
      );
    }),
  );
}

function Bars({ chart, measure }: { chart: Chart; measure: Measure }) {
  const step = (width - left) / chart.days.length;
  const labelEvery = 7 * Math.ceil(chart.days.length / (7 * labelsMax));
  return h(
    'g',
    null,
    chart.days.map(({ day, parts }, index) =>
      h(
        'g',
        { key: day },
        parts.map(({ model, from, to, series }) => {
          const y = heightOf(to, chart);
          const box = { x: left + (index + 0.12) * step, y, width: step * 0.76, height: heightOf(from, chart) - y };
          const said = `${formatDay(day)}, ${model}: ${formatCount(to - from)} ${measures[measure]}`;
          return h(SeriesBox, { key: model, series, ...box }, h('title', null, said));
        }),
        index % labelEvery === 0 && h('text', { x: left + index * step, y: height - 8 }, formatShortDay(day)),
      ),
    ),
  );
}

function describe({ days }: Chart, measure: Measure): string {
  const used = days.filter(({ total }) => total > 0);
  const most = used.toSorted((one, other) => other.total - one.total)[0];
  if (most === undefined) return `${measures[measure]}: none on any day`;
  const onDays = used.length === 1 ? 'on one day' : `on ${used.length} days`;
  return `${measures[measure]} by day and model: ${onDays}, most on ${formatDay(most.day)} (${formatCount(most.total)}). The table below has all numbers.`;
}
