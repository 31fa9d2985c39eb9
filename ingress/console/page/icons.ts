import { h } from 'preact';

/** Outlines in a square of 16, drawn with a round pen. */
const outlines = {
  service: 'M1.5 8.5h3l2-5 3 9 2-4h3',
  overview: 'M2.5 7.5 8 3l5.5 4.5M4 6.5V13h8V6.5M6.5 13V9.5h3V13',
  requests: 'M2.5 5h8.5M8.5 2.5 11 5 8.5 7.5M13.5 11H5M7.5 8.5 5 11l2.5 2.5',
  batches: 'M8 2 14 5 8 8 2 5zM2 8l6 3 6-3M2 11l6 3 6-3',
  usage: 'M2.5 2.5v11h11M5.5 11V8M8.5 11V5M11.5 11V6.5',
  keys: 'M9.5 9.5a3.5 3.5 0 1 0-3-3L2.5 10.5v3h3v-2h2zM11 5h.01',
  webhooks: 'M5.5 10.5 8 5.5M8 5.5a2 2 0 1 0-2-2M4 9.5a2 2 0 1 0 2 2.5h4M10 10l-1.5-3M11 9.5a2 2 0 1 1-1 3.5',
  'try-it': 'M2.5 3h11v8h-6l-3 2.5V11h-2zM5.5 6h5M5.5 8.2h3',
  fleet: 'M2.5 2.5h11v4h-11zM2.5 9.5h11v4h-11zM5 4.5h.01M5 11.5h.01M8 4.5h3M8 11.5h3',
  accounts:
    'M6 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM1.5 13.5c0-2.5 2-4 4.5-4s4.5 1.5 4.5 4M10.5 2.8a2.5 2.5 0 0 1 0 4.4M12.3 9.8c1.4.6 2.2 1.9 2.2 3.7',
  audit: 'M8 4v4l2.5 1.5M2.5 8A5.5 5.5 0 1 0 4 4.2M2.5 2.5v3h3',
  codes: 'M2 4.5h12v2.3a1.2 1.2 0 0 0 0 2.4v2.3H2V9.2a1.2 1.2 0 0 0 0-2.4zM9.5 5v.01M9.5 8v.01M9.5 11v.01',
  settings: 'M2.5 4.5h6M11.5 4.5h2M10 3v3M2.5 8h2M7.5 8h6M6 6.5v3M2.5 11.5h7M12.5 11.5h1M11 10v3',
  search: 'M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.5 10.5l3 3',
  book: 'M3 2.5h8.5a1.5 1.5 0 0 1 1.5 1.5v9.5H4.5A1.5 1.5 0 0 1 3 12zM3 12a1.5 1.5 0 0 1 1.5-1.5H13M6 5.5h4',
  support: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM6.2 6.3a1.9 1.9 0 1 1 2.6 1.8c-.6.3-.8.6-.8 1.2M8 11.4h.01',
  leave: 'M9.5 3h-6v10h6M6.5 8h7M11 5.5 13.5 8 11 10.5',
  menu: 'M2.5 4.5h11M2.5 8h11M2.5 11.5h11',
  copy: 'M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1',
  done: 'M3 8.5 6.5 12 13 4.5',
  todo: 'M8 13.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11z',
  wrong: 'M8 2 14.5 13.5h-13zM8 6.5v3M8 11.5h.01',
  next: 'M6 3.5 10.5 8 6 12.5',
  up: 'M8 12.5v-9M4.5 7 8 3.5 11.5 7',
  down: 'M8 3.5v9M4.5 9 8 12.5 11.5 9',
} as const;

export type IconName = keyof typeof outlines;

/** Beside words that say the same: it has no name of its own. */
export function Icon({ name }: { name: IconName }) {
  return h(
    'svg',
    { class: 'icon', viewBox: '0 0 16 16', width: 16, height: 16, 'aria-hidden': true, focusable: 'false' },
    h('path', { d: outlines[name] }),
  );
}

export type Tone = 'good' | 'moving' | 'warning' | 'bad' | 'neutral';

/** A state in a word, with a colour that says how it is to be taken. */
export function StateBadge({ state, tone }: { state: string; tone: Tone }) {
  return h('span', { class: `state ${tone}` }, state);
}
