import uPlot from 'uplot/dist/uPlot.esm.js';

/** One value for each time of a chart; null: nothing was measured. `tone`: a meaning that its colour shows. */
export type ChartSeries = {
  name: string;
  values: readonly (number | null)[];
  tone?: 'good' | 'warning' | 'bad' | 'neutral';
};

export type ChartData = {
  /** Beginnings of equal steps of time, in seconds since 1970. */
  times: readonly number[];
  stepSeconds: number;
  series: readonly ChartSeries[];
  /** Bars are stacked, in the order of the series from below. */
  kind: 'bars' | 'lines';
  /** Of a value on its axis. */
  format: (value: number) => string;
};

export type DrawnChart = Disposable & {
  /** The place of a time, in pixels from the left of the chart, and the width of its step. */
  placeOf: (index: number) => { left: number; width: number };
};

const height = 220;
const barShare = 0.78;
const barWidthMax = 40;

/** The class of a series, whose `color` is that of the series in the present colour scheme. */
export function seriesClass({ tone }: ChartSeries, index: number): string {
  return tone === undefined ? `series-${index % 6}` : `series-${tone}`;
}

/** Draws a chart into an element with uPlot. Its colours are those of the style sheet, so it must be drawn again in another scheme. */
export function drawChart(element: HTMLElement, data: ChartData): DrawnChart {
  const { times, stepSeconds, series, kind, format } = data;
  const [text, line] = [colorOf(element, 'axis-text'), colorOf(element, 'axis-line')];
  const axis = {
    stroke: text,
    grid: { stroke: line, width: 1 },
    ticks: { stroke: line, width: 1 },
    font: fontOf(element),
  };
  const { columns, shown } =
    kind === 'bars' ? stacked(series) : { columns: series, shown: series.map((_, index) => index) };
  const paths = kind === 'bars' ? uPlot.paths.bars?.({ size: [barShare, barWidthMax], align: 1 }) : undefined;
  const chart = new uPlot(
    {
      width: Math.max(200, element.clientWidth),
      height,
      legend: { show: false },
      // Days are those of UTC.
      ...(stepSeconds >= daySeconds && {
        tzDate: (seconds: number) => uPlot.tzDate(new Date(seconds * 1_000), 'Etc/UTC'),
      }),
      cursor: { show: false },
      scales: {
        x: { time: true, range: () => rangeOf(times, stepSeconds) },
        y: { range: (_, _min, max) => [0, roomFor(max)] },
      },
      axes: [
        { ...axis, grid: { show: false }, space: 70, values: (_, splits) => ticksOf(splits) },
        { ...axis, size: 64, values: (_, values) => values.map((value) => format(value)) },
      ],
      series: [
        {},
        ...shown.map((index) => {
          const color = colorOf(element, seriesClass(series[index] ?? noSeries, index));
          return kind === 'bars'
            ? { fill: color, stroke: color, width: 0, points: { show: false }, ...(paths && { paths }) }
            : { stroke: color, width: 2, points: { show: times.length < 3 }, spanGaps: false };
        }),
      ],
    },
    [[...times], ...columns.map(({ values }) => [...values])] as uPlot.AlignedData, // equally long
    element,
  );
  const resized = new ResizeObserver(() => {
    if (element.clientWidth > 0) chart.setSize({ width: element.clientWidth, height });
  });
  resized.observe(element);
  return {
    placeOf(index) {
      const at = (time: number) => chart.valToPos(time, 'x') + chart.bbox.left / devicePixelRatio;
      const left = at(times[index] ?? 0);
      return { left, width: at((times[index] ?? 0) + stepSeconds) - left };
    },
    [Symbol.dispose]() {
      resized.disconnect();
      chart.destroy();
    },
  };
}

const daySeconds = 86_400;

const noSeries: ChartSeries = { name: '', values: [] };

/** Sums up to each series, the largest first, so that each covers a part of the one before it. */
function stacked(series: readonly ChartSeries[]) {
  let below: number[] = [];
  const sums = series.map(({ name, values }) => {
    below = values.map((value, index) => (below[index] ?? 0) + (value ?? 0));
    return { name, values: below };
  });
  const shown = series.map((_, index) => index).toReversed();
  return { columns: sums.toReversed(), shown };
}

function rangeOf(times: readonly number[], stepSeconds: number): [number, number] {
  return [times[0] ?? 0, (times.at(-1) ?? 0) + stepSeconds];
}

const [hourTick, dayTick] = [
  new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' }),
  new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' }),
];

/** The time of day, with the day where it changes; days alone if they are a day or more apart. */
function ticksOf(splits: readonly number[]): string[] {
  const isOfDays = (splits[1] ?? 0) - (splits[0] ?? 0) >= daySeconds;
  let latest = '';
  return splits.map((seconds) => {
    const [hour, day] = [hourTick.format(seconds * 1_000), dayTick.format(seconds * 1_000)];
    const isNew = day !== latest;
    latest = day;
    if (isOfDays) return day;
    return isNew ? `${hour}\n${day}` : hour;
  });
}

/** A little more than the highest value; an empty chart has an axis, too. */
function roomFor(max: number | null): number {
  return max === null || max <= 0 ? 1 : max * 1.05;
}

/** A canvas knows no custom properties and no `light-dark()`: an element resolves them. */
function colorOf(element: HTMLElement, className: string): string {
  const probe = document.createElement('span');
  probe.className = className;
  probe.hidden = true;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

function fontOf(element: HTMLElement): string {
  return `12px ${getComputedStyle(element).fontFamily}`;
}
