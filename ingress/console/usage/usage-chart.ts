import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { UsageRow } from '../../usage/usage-report.ts';
import { Choice } from '../controls/choice.ts';
import { formatCount, formatDay } from '../page/format.ts';
import { ChartDrawing } from './chart-drawing.ts';
import { type Chart, chartOf, type Measure, measures } from './chart-of.ts';
import type { DayRange } from './day-range.ts';
import { SeriesSwatch } from './series.ts';
import { useWidth } from './use-width.ts';

/**
 * One stacked bar per day, with a colour and a pattern for each model. A day's numbers are shown while the pointer is over it; by keyboard,
 * arrow keys, Home and End go from day to day. The table below has all numbers.
 */
export function UsageChart({ range, rows }: { range: DayRange; rows: readonly UsageRow[] }) {
  const [measure, setMeasure] = useState<Measure>('chargedTokens');
  const [pointed, point] = useState<number>();
  const { box, width } = useWidth();
  const chart = chartOf({ range, rows, measure });
  const last = chart.days.length - 1;
  const shown = pointed === undefined ? undefined : Math.min(pointed, last);

  function press(event: KeyboardEvent): void {
    const at = shown ?? last + 1;
    const goal = { ArrowLeft: at - 1, ArrowRight: (shown ?? -1) + 1, Home: 0, End: last }[event.key];
    if (event.key === 'Escape') point(undefined);
    if (goal === undefined) return;
    event.preventDefault();
    point(Math.min(Math.max(goal, 0), last));
  }

  return h(
    'figure',
    { class: 'chart' },
    h(Choice<Measure>, { legend: 'Show', options: measures, chosen: measure, choose: setMeasure }),
    h(
      'div',
      {
        ref: box,
        class: 'plot',
        role: 'application',
        'aria-roledescription': 'chart',
        'aria-label': describe(chart, measure),
        tabIndex: 0,
        onKeyDown: press,
        onBlur: () => point(undefined),
        onPointerLeave: () => point(undefined),
      },
      h(ChartDrawing, { chart, width, shown, point }),
      shown !== undefined && h(DayNumbers, { chart, measure, index: shown }),
    ),
    h('p', { class: 'unseen', role: 'status' }, shown === undefined ? '' : sayDay(chart, measure, shown)),
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

/** Beside the bar of the day, on the side with more room. */
function DayNumbers({ chart, measure, index }: { chart: Chart; measure: Measure; index: number }) {
  const day = chart.days[index];
  if (day === undefined) return null;
  return h(
    'div',
    { class: index < chart.days.length / 2 ? 'day-numbers right' : 'day-numbers left', 'aria-hidden': true },
    h('strong', null, formatDay(day.day)),
    h('span', { class: 'quiet' }, `${formatCount(day.total)} ${measures[measure]}`),
    h(
      'ul',
      null,
      day.parts
        .toReversed()
        .map(({ model, from, to, series }) =>
          h(
            'li',
            { key: model },
            h(SeriesSwatch, { series }),
            h('span', null, model),
            h('b', null, formatCount(to - from)),
          ),
        ),
    ),
  );
}

function sayDay({ days }: Chart, measure: Measure, index: number): string {
  const day = days[index];
  if (day === undefined) return '';
  const parts = day.parts.map(({ model, from, to }) => `${model} ${formatCount(to - from)}`);
  return [`${formatDay(day.day)}: ${formatCount(day.total)} ${measures[measure]}`, ...parts].join(', ');
}

function describe({ days }: Chart, measure: Measure): string {
  const used = days.filter(({ total }) => total > 0);
  const most = used.toSorted((one, other) => other.total - one.total)[0];
  if (most === undefined) return `${measures[measure]}: none on any day`;
  const onDays = used.length === 1 ? 'on one day' : `on ${used.length} days`;
  return `${measures[measure]} by day and model: ${onDays}, most on ${formatDay(most.day)} (${formatCount(most.total)}). Arrow keys go from day to day. The table below has all numbers.`;
}
