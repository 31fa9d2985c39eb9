import { h } from 'preact';
import { formatShort, formatShortDay } from '../page/format.ts';
import type { Chart } from './chart-of.ts';
import { SeriesBox, SeriesPatterns } from './series.ts';

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
export function ChartDrawing({ chart, width, shown, point }: Props) {
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
