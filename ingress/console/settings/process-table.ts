import { h } from 'preact';
import type { ServiceSettings } from '../../routes/settings.ts';
import { StateBadge } from '../controls/state-badge.ts';
import { Table } from '../controls/table.ts';
import { formatTime } from '../page/format.ts';

type Process = ServiceSettings['processes'][number];

export function ProcessTable({ settings }: { settings: ServiceSettings }) {
  const stateOf = ({ generation, issues }: Process) => {
    if (issues > 0) return h(StateBadge, { state: 'its file is invalid', tone: 'bad' });
    return generation === settings.generation ? 'as this ingress' : h(StateBadge, { state: 'another', tone: 'moving' });
  };
  return h(Table<Process>, {
    caption: 'Processes',
    rows: settings.processes,
    rowKey: ({ id }) => id,
    columns: [
      { title: 'Process', cell: ({ kind, id }) => `${kind} ${id}` },
      { title: 'Generation', cell: ({ generation }) => h('code', null, generation) },
      { title: 'Plan file', cell: stateOf },
      { title: 'Pools', cell: ({ pools }) => pools.join(', ') || '–', holds: 'text' },
      { title: 'Started', cell: ({ started_at }) => formatTime(started_at) },
    ],
  });
}
