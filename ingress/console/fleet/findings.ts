import { h } from 'preact';
import type { FleetView } from '../../routes/operators/fleet.ts';
import { Icon } from '../frame/icons.ts';
import { findingsIn } from './fleet-findings.ts';

/** What is wrong, or that nothing is. */
export function Findings({ fleet }: { fleet: FleetView }) {
  const found = findingsIn(fleet);
  return h(
    'div',
    { class: 'card findings', role: 'status' },
    found.length === 0
      ? h('p', { class: 'good' }, h(Icon, { name: 'done' }), 'All is well.')
      : h(
          'ul',
          null,
          found.map(({ tone, text }) => h('li', { key: text, class: tone }, h(Icon, { name: 'wrong' }), text)),
        ),
  );
}
