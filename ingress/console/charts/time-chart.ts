import { type ComponentChildren, h } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Table } from '../page/table.ts';
import { type ChartData, type ChartSeries, type DrawnChart, drawChart, seriesClass } from './draw-chart.ts';

type Props = ChartData & {
  /** What is shown, with its unit: `Requests by outcome, each hour`. */
  title: string;
  /** Of a time, such as `27 Nov, 14:00`. */
  formatTime: (seconds: number) => string;
  /** Of a value beside its series: `1,234 requests`. */
  formatValue: (value: number) => string;
  /** What a click on a time opens, and Enter. */
  open?: { label: string; at: (index: number) => void };
  /** Controls beside the title. */
  children?: ComponentChildren;
};

/**
 * A chart over time. Its numbers are shown for the time under the pointer; by keyboard, arrow keys, Home and End go from time to time, and
 * Enter opens one. All numbers are in a table, which can be unfolded below it.
 */
export function TimeChart(props: Props) {
  const { title, times, series, formatTime, formatValue, open, children } = props;
  const [pointed, point] = useState<number>();
  const { box, drawing } = useDrawing(props);
  const last = times.length - 1;
  const shown = pointed === undefined ? undefined : Math.min(pointed, last);

  function press(event: KeyboardEvent): void {
    if (event.key === 'Enter' && shown !== undefined) open?.at(shown);
    if (event.key === 'Escape') point(undefined);
    const goal = { ArrowLeft: (shown ?? last + 1) - 1, ArrowRight: (shown ?? -1) + 1, Home: 0, End: last }[event.key];
    if (goal === undefined) return;
    event.preventDefault();
    point(Math.min(Math.max(goal, 0), last));
  }

  const words = shown === undefined ? '' : sayTime(props, shown);
  return h(
    'figure',
    { class: 'chart' },
    h('div', { class: 'chart-head' }, h('figcaption', null, title), children),
    h(
      'div',
      {
        class: open === undefined ? 'plot' : 'plot opens',
        role: 'application',
        'aria-roledescription': 'chart',
        'aria-label': `${title}. ${describe(props)} Arrow keys go from time to time${open === undefined ? '' : `, Enter ${open.label}`}.`,
        tabIndex: 0,
        onKeyDown: press,
        onBlur: () => point(undefined),
        onPointerLeave: () => point(undefined),
        onPointerMove: (event: PointerEvent) => point(indexAt(event, drawing.current, times.length)),
        onPointerDown: (event: PointerEvent) => point(indexAt(event, drawing.current, times.length)),
        onClick: () => shown !== undefined && open?.at(shown),
      },
      h('div', { class: 'drawing', ref: box }),
      shown !== undefined && drawing.current && h(Pointed, { ...props, index: shown, drawing: drawing.current }),
    ),
    h('p', { class: 'unseen', role: 'status' }, words),
    h(Legend, { series }),
    h(NumbersTable, { title, times, series, formatTime, formatValue }),
  );
}

function Legend({ series }: { series: readonly ChartSeries[] }) {
  if (series.length < 2) return null;
  return h(
    'ul',
    { class: 'legend' },
    series.map((each, index) =>
      h('li', { key: each.name }, h('span', { class: `swatch ${seriesClass(each, index)}` }), each.name),
    ),
  );
}

/** Draws again when the data or the colour scheme changes. */
function useDrawing(data: ChartData) {
  const box = useRef<HTMLDivElement>(null);
  const drawing = useRef<DrawnChart | undefined>(undefined);
  const isDark = useColorScheme();
  const known = JSON.stringify([data.times, data.stepSeconds, data.series, data.kind]);
  useLayoutEffect(() => {
    if (box.current === null || data.times.length === 0) return undefined;
    const drawn = drawChart(box.current, data);
    drawing.current = drawn;
    return () => {
      drawing.current = undefined;
      drawn[Symbol.dispose]();
    };
  }, [known, isDark]);
  return { box, drawing };
}

function useColorScheme(): boolean {
  const query = '(prefers-color-scheme: dark)';
  const [isDark, setDark] = useState(window.matchMedia(query).matches);
  useEffect(() => {
    const media = window.matchMedia(query);
    const changed = () => setDark(media.matches);
    media.addEventListener('change', changed);
    return () => media.removeEventListener('change', changed);
  }, []);
  return isDark;
}

function indexAt(event: PointerEvent, drawing: DrawnChart | undefined, count: number): number | undefined {
  const plot = event.currentTarget;
  if (drawing === undefined || !(plot instanceof HTMLElement)) return undefined;
  const x = event.clientX - plot.getBoundingClientRect().left;
  const { left, width } = drawing.placeOf(0);
  const index = Math.floor((x - left) / width);
  return index >= 0 && index < count ? index : undefined;
}

/** The step of the time that is pointed at, and its numbers beside it, on the side with more room. */
function Pointed({
  times,
  series,
  formatTime,
  formatValue,
  open,
  index,
  drawing,
}: Props & { index: number; drawing: DrawnChart }) {
  const { left, width } = drawing.placeOf(index);
  const side = index < times.length / 2 ? 'right' : 'left';
  return [
    h('div', { class: 'pointed', style: { left: `${left}px`, width: `${Math.max(1, width)}px` } }),
    h(
      'div',
      { class: `numbers ${side}`, 'aria-hidden': true },
      h('strong', null, formatTime(times[index] ?? 0)),
      h(
        'ul',
        null,
        series.flatMap((each, number) => {
          const value = each.values[index];
          if (value == null || (value === 0 && series.length > 1)) return [];
          const swatch = h('span', { class: `swatch ${seriesClass(each, number)}` });
          return [h('li', { key: each.name }, swatch, h('span', null, each.name), h('b', null, formatValue(value)))];
        }),
      ),
      open !== undefined && h('span', { class: 'quiet' }, `Click ${open.label}`),
    ),
  ];
}

function sayTime({ times, series, formatTime, formatValue }: Props, index: number): string {
  const parts = series.flatMap(({ name, values }) => {
    const value = values[index];
    return value == null ? [] : [`${name} ${formatValue(value)}`];
  });
  return `${formatTime(times[index] ?? 0)}: ${parts.join(', ') || 'nothing'}`;
}

function describe({ times, series, formatTime, formatValue }: Props): string {
  const totals = times.map((_, index) => series.reduce((sum, { values }) => sum + (values[index] ?? 0), 0));
  const most = Math.max(0, ...totals);
  if (most === 0) return 'Nothing in this time.';
  return `Most at ${formatTime(times[totals.indexOf(most)] ?? 0)}: ${formatValue(most)}.`;
}

type TableProps = Pick<Props, 'title' | 'times' | 'series' | 'formatTime' | 'formatValue'>;

/** Made only while it is unfolded. */
function NumbersTable({ title, times, series, formatTime, formatValue }: TableProps) {
  const [isOpen, setOpen] = useState(false);
  return h(
    'details',
    {
      class: 'chart-table',
      onToggle: ({ currentTarget }: { currentTarget: HTMLDetailsElement }) => setOpen(currentTarget.open),
    },
    h('summary', null, 'Show as a table'),
    isOpen &&
      h(Table<number>, {
        caption: title,
        rows: times.map((_, index) => index),
        rowKey: String,
        columns: [
          { title: 'Time', cell: (index) => formatTime(times[index] ?? 0), sortBy: (index) => index },
          ...series.map(({ name, values }) => ({
            title: name,
            holds: 'number' as const,
            cell: (index: number) => (values[index] == null ? '–' : formatValue(values[index])),
            sortBy: (index: number) => values[index] ?? undefined,
          })),
        ],
      }),
  );
}
