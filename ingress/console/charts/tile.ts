import { type ComponentChildren, h } from 'preact';

type LineProps = {
  /** What the line shows, with its range and the length of its steps: `Requests of the last 24 hours, each hour`. */
  label: string;
  values: readonly (number | null)[];
  /** A value with its unit. */
  format: (value: number) => string;
  tone?: 'bad' | undefined;
};

const [width, height] = [160, 32];

/** What a line has no axis for: its range, and its lowest, highest and latest value with their unit. */
export function lineWords({ label, values, format }: Omit<LineProps, 'tone'>): string {
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return `${label}: no value`;
  const [low, high, latest] = [Math.min(...known), Math.max(...known), known.at(-1) ?? 0].map(format);
  return `${label}: lowest ${low}, highest ${high}, latest ${latest}`;
}

/** A line of recent values without an axis, which its description is for. */
function Sparkline({ values, label, format, tone }: LineProps) {
  const high = Math.max(...values.filter((value) => value !== null));
  const words = lineWords({ label, values, format });
  return h(
    'svg',
    {
      class: tone === undefined ? 'sparkline' : `sparkline ${tone}`,
      viewBox: `0 0 ${width} ${height}`,
      preserveAspectRatio: 'none',
      role: 'img',
      'aria-label': words,
    },
    h('title', null, words),
    // A line is thin: its whole area shows the title.
    h('rect', { class: 'area', width, height }),
    partsOf(values).map((points) =>
      h('polyline', { key: points[0], points: pointsOf(points, values, [0, Math.max(high, 1e-9)]) }),
    ),
  );
}

/** The runs of known values, as their indexes. */
function partsOf(values: readonly (number | null)[]): number[][] {
  const parts: number[][] = [];
  let part: number[] = [];
  for (const [index, value] of values.entries()) {
    if (value !== null) part.push(index);
    else part = [];
    if (part.length === 1) parts.push(part);
  }
  return parts;
}

function pointsOf(
  indexes: readonly number[],
  values: readonly (number | null)[],
  [low, high]: [number, number],
): string {
  const x = (index: number) => (index * width) / Math.max(1, values.length - 1);
  const y = (value: number) => height - 2 - ((value - low) / (high - low)) * (height - 4);
  const points = indexes.map((index) => `${x(index).toFixed(1)},${y(values[index] ?? 0).toFixed(1)}`);
  // A line of one point has no length.
  return points.length === 1
    ? `${points[0]} ${(x(indexes[0] ?? 0) + 2).toFixed(1)},${points[0]?.split(',')[1]}`
    : points.join(' ');
}

type TileProps = {
  title: string;
  value: ComponentChildren;
  /** Exact or longer, as a tooltip. */
  exact?: string;
  /** One line below the value. */
  note?: ComponentChildren;
  tone?: 'bad' | undefined;
  line: LineProps;
  href?: string;
};

/** A number with its recent course. */
export function Tile({ title, value, exact, note, tone, line, href }: TileProps) {
  return h(
    'section',
    { class: 'card tile', 'aria-label': title },
    h('h2', null, href === undefined ? title : h('a', { href }, title)),
    h('p', { class: 'tile-value', ...(exact !== undefined && { title: exact }) }, value),
    h('p', { class: tone === undefined ? 'tile-note quiet' : `tile-note ${tone}` }, note ?? ' '),
    h(Sparkline, line),
  );
}

export function Tiles({ children }: { children: ComponentChildren }) {
  return h('div', { class: 'tiles' }, children);
}
