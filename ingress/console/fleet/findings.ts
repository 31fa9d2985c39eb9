import { h } from 'preact';
import { useMemo } from 'preact/hooks';
import type { FleetView } from '../../routes/fleet.ts';
import { Icon } from '../frame/icons.ts';
import { findingsIn } from './fleet-findings.ts';

/** What is wrong, or that nothing is. Announced when something else is wrong, and not each time that a number changes. */
export function Findings({ fleet }: { fleet: FleetView }) {
  const found = findingsIn(fleet);
  const keys = found
    .map(({ key }) => key)
    .toSorted()
    .join('\n');
  const announced = useMemo(() => found.map(({ text }) => text).join(' ') || allIsWell, [keys]);
  return h(
    'div',
    { class: 'card findings' },
    h('span', { class: 'unseen', role: 'status' }, announced),
    found.length === 0
      ? h('p', { class: 'good' }, h(Icon, { name: 'done' }), allIsWell)
      : h(
          'ul',
          null,
          found.map(({ tone, text, key }) => h('li', { key, class: tone }, h(Icon, { name: 'wrong' }), text)),
        ),
  );
}

const allIsWell = 'All is well.';
