import { type ComponentChildren, h } from 'preact';

type Box = { x: number; y: number; width: number; height: number };

/** Distinguish all series except the first without colours: SVG paths of lines and dots in a square of 8. */
const patterns = ['', 'M-2 2 2-2M0 8 8 0M6 10 10 6', 'M2 2h2M6 6h2', 'M4 0v8', 'M0 4h8', 'M-2 6 2 10M0 0 8 8M6-2 10 2'];

/** Defines the patterns, once per SVG, for all series drawn in it or beside it. */
export function SeriesPatterns() {
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
export function SeriesBox({ series, children, ...box }: Box & { series: number; children?: ComponentChildren }) {
  return h(
    'g',
    null,
    h('rect', { ...box, class: `series-${series}` }),
    h('rect', { ...box, class: 'patterned', fill: `url(#series-${series})` }),
    children,
  );
}

/** The same for a legend. */
export function SeriesSwatch({ series }: { series: number }) {
  const size = 16;
  return h(
    'svg',
    { class: 'swatch', viewBox: `0 0 ${size} ${size}`, 'aria-hidden': true },
    h(SeriesBox, { series, x: 0, y: 0, width: size, height: size }),
  );
}
