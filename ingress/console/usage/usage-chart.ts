import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { UsageDay } from '../../openapi/answers.ts';
import { Choice } from '../page/choice.ts';
import { formatCount, formatDay, formatShort } from '../page/format.ts';
import { chartOf, type Measure, measures } from './chart-of.ts';

const width = 640;
const height = 220;
const left = 60;
const bottom = 30;
const top = 8;

/** Stacked bars, a day each, a colour and a pattern of its own for each model. The table beside it has the figures. */
export function UsageChart({ month, days }: { month: string; days: readonly UsageDay[] }) {
  const [measure, setMeasure] = useState<Measure>('chargedTokens');
  const chart = chartOf({ month, days, measure });
  const plotHeight = height - top - bottom;
  const step = (width - left) / chart.days.length;
  const y = (value: number) => top + plotHeight * (1 - value / chart.max);
  return h(
    'figure',
    { class: 'chart' },
    h(Choice<Measure>, { legend: 'Show', options: measures, chosen: measure, choose: setMeasure }),
    h(
      'svg',
      { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': describe(chart.days, measure) },
      chart.ticks.map((tick) => [
        h('line', { key: `line ${tick}`, class: 'grid', x1: left, x2: width, y1: y(tick), y2: y(tick) }),
        h('text', { key: `text ${tick}`, x: left - 6, y: y(tick) + 4, 'text-anchor': 'end' }, formatShort(tick)),
      ]),
      chart.days.map(({ day, parts }, index) =>
        h(
          'g',
          { key: day },
          parts.map(({ model, from, to, series }) =>
            h(
              'rect',
              {
                key: model,
                class: `series-${series}`,
                x: left + index * step + step * 0.12,
                width: step * 0.76,
                y: y(to),
                height: y(from) - y(to),
              },
              h('title', null, `${formatDay(day)}, ${model}: ${formatCount(to - from)} ${measures[measure]}`),
            ),
          ),
          (index % 7 === 0 || chart.days.length < 10) &&
            h('text', { x: left + (index + 0.5) * step, y: height - 8, 'text-anchor': 'middle' }, String(index + 1)),
        ),
      ),
    ),
    h(
      'figcaption',
      null,
      h(
        'ul',
        { class: 'legend' },
        chart.series.map(({ model, series }) =>
          h('li', { key: model }, h('span', { class: `swatch series-${series}`, 'aria-hidden': true }), model),
        ),
      ),
    ),
  );
}

function describe(days: ReturnType<typeof chartOf>['days'], measure: Measure): string {
  const used = days.filter(({ total }) => total > 0);
  const most = used.toSorted((one, other) => other.total - one.total)[0];
  if (most === undefined) return `${measures[measure]}: none on any day`;
  const onDays = used.length === 1 ? 'on one day' : `on ${used.length} days`;
  return `${measures[measure]} by day and model: ${onDays}, most on ${formatDay(most.day)} (${formatCount(most.total)}). The table below has each figure.`;
}
