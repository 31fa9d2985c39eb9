import { h } from 'preact';
import { formatMs } from '../page/format.ts';
import type { Phase } from './request-state.ts';

/** A short part stays visible. */
const visibleShare = 0.004;

/** The parts of a request's life as bars on one scale. The list has all of it in words. */
export function Waterfall({ phases, durationMs }: { phases: readonly Phase[]; durationMs: number }) {
  const whole = Math.max(1, durationMs);
  const percent = (ms: number) => `${(100 * ms) / whole}%`;
  return h(
    'ol',
    { class: 'waterfall', 'aria-label': 'Timeline' },
    phases.map(({ name, kind, fromMs, toMs }) =>
      h(
        'li',
        { key: name },
        h('span', { class: 'phase' }, name),
        h(
          'svg',
          { width: '100%', height: 14, 'aria-hidden': true },
          h('rect', { class: 'track', width: '100%', height: '100%', rx: 3 }),
          h('rect', {
            class: `bar ${kind}`,
            x: percent(fromMs),
            width: percent(Math.max(toMs - fromMs, whole * visibleShare)),
            height: '100%',
            rx: 3,
          }),
        ),
        h('span', { class: 'took' }, formatMs(toMs - fromMs)),
      ),
    ),
  );
}
