import { type ComponentChildren, h } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { UsageRow } from '../../usage/usage-report.ts';
import { Choice } from '../page/fields.ts';
import { formatCount, formatDay, formatShort, formatShortDay } from '../page/format.ts';
import { type Chart, chartOf, type Measure, measures } from './chart-of.ts';
import type { DayRange } from './day-range.ts';

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

const height = 240;
const left = 48;
const bottom = 26;
const top = 8;
/** Room of a label of the axis of days. */
const labelWidth = 70;
/** Room that a short one needs. */
const labelWidthMin = 42;

type Props = {
  chart: Chart;
  /** In pixels: the drawing is not scaled, so that its texts keep their size. */
  width: number;
  /** The index of the day whose numbers are shown. */
  shown: number | undefined;
  point: (index: number) => void;
};

/** The axes and the bars. */
function ChartDrawing({ chart, width, shown, point }: Props) {
  const step = (width - left) / chart.days.length;
  return h(
    'svg',
    { viewBox: `0 0 ${width} ${height}`, width, height, 'aria-hidden': true },
    h(SeriesPatterns, null),
    h(Axis, { chart, width }),
    shown !== undefined &&
      h('rect', { class: 'pointed', x: left + shown * step, y: top, width: step, height: height - top - bottom }),
    h(Bars, { chart, step }),
    h(DayLabels, { chart, step }),
    chart.days.map(({ day }, index) =>
      h('rect', {
        key: day,
        class: 'target',
        x: left + index * step,
        y: 0,
        width: step,
        height,
        onPointerEnter: () => point(index),
        onPointerDown: () => point(index),
      }),
    ),
  );
}

function heightOf(value: number, { max }: Chart): number {
  return top + (height - top - bottom) * (1 - value / max);
}

function Axis({ chart, width }: { chart: Chart; width: number }) {
  return h(
    'g',
    null,
    chart.ticks.map((tick) => {
      const y = heightOf(tick, chart);
      return h(
        'g',
        { key: tick },
        h('line', { class: 'grid', x1: left, x2: width, y1: y, y2: y }),
        h('text', { x: left - 8, y: y + 4, 'text-anchor': 'end' }, formatShort(tick)),
      );
    }),
  );
}

function Bars({ chart, step }: { chart: Chart; step: number }) {
  return h(
    'g',
    null,
    chart.days.flatMap(({ day, parts }, index) =>
      parts.map(({ model, from, to, series }) => {
        const y = heightOf(to, chart);
        const width = Math.min(step * 0.76, barWidthMax);
        const x = left + (index + 0.5) * step - width / 2;
        return h(SeriesBox, { key: `${day} ${model}`, series, x, y, width, height: heightOf(from, chart) - y });
      }),
    ),
  );
}

const barWidthMax = 40;

/** A label that would leave the drawing is left out. */
function DayLabels({ chart: { days }, step }: { chart: Chart; step: number }) {
  const every = Math.max(1, Math.ceil(labelWidth / step));
  return h(
    'g',
    null,
    days.map(
      ({ day }, index) =>
        index % every === 0 &&
        (days.length - index) * step >= labelWidthMin &&
        h('text', { key: day, x: left + index * step, y: height - 6 }, formatShortDay(day)),
    ),
  );
}

type Box = { x: number; y: number; width: number; height: number };

/** Distinguish all series except the first without colours: SVG paths of lines and dots in a square of 8. */
const patterns = ['', 'M-2 2 2-2M0 8 8 0M6 10 10 6', 'M2 2h2M6 6h2', 'M4 0v8', 'M0 4h8', 'M-2 6 2 10M0 0 8 8M6-2 10 2'];

/** Defines the patterns, once per SVG, for all series drawn in it or beside it. */
function SeriesPatterns() {
  return h(
    'defs',
    null,
    patterns.map((path, series) =>
      h(
        'pattern',
        { key: series, id: `series-${series}`, width: 8, height: 8, patternUnits: 'userSpaceOnUse' },
        h('path', { class: 'pattern', d: path }),
      ),
    ),
  );
}

/** A box with the colour and pattern of a series. */
function SeriesBox({ series, children, ...box }: Box & { series: number; children?: ComponentChildren }) {
  return h(
    'g',
    null,
    h('rect', { ...box, class: `series-${series}` }),
    h('rect', { ...box, class: 'patterned', fill: `url(#series-${series})` }),
    children,
  );
}

/** The same for a legend. */
function SeriesSwatch({ series }: { series: number }) {
  const size = 16;
  return h(
    'svg',
    { class: 'swatch', viewBox: `0 0 ${size} ${size}`, 'aria-hidden': true },
    h(SeriesBox, { series, x: 0, y: 0, width: size, height: size }),
  );
}

const widthBefore = 640;

/** The width of an element in pixels, as it changes; before it is known, a usual one. */
function useWidth() {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(widthBefore);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const measure = () => element.clientWidth > 0 && setWidth(element.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return { box, width };
}
