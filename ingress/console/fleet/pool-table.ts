import { h } from 'preact';
import type { FleetView } from '../../routes/fleet.ts';
import { StateBadge } from '../controls/state-badge.ts';
import { Table } from '../controls/table.ts';
import { formatCount, formatMs } from '../page/format.ts';

type Model = FleetView['pools'][number]['models'][number] & { pool: string; workers: number };

/** The queue of each model, with the workers of its pool. */
export function PoolTable({ fleet: { pools } }: { fleet: FleetView }) {
  return h(Table<Model>, {
    caption: 'Queues by model',
    rows: pools.flatMap(({ pool, workers, models }) => models.map((model) => ({ ...model, pool, workers }))),
    rowKey: ({ model }) => model,
    columns: [
      { title: 'Model', cell: ({ model }) => model, sortBy: ({ model }) => model },
      { title: 'Pool', cell: ({ pool }) => pool, sortBy: ({ pool }) => pool },
      {
        title: 'Workers',
        cell: ({ workers }) => (workers === 0 ? h(StateBadge, { state: 'none', tone: 'bad' }) : workers),
        holds: 'number',
      },
      {
        title: 'Requests queued',
        cell: ({ queued, queue_max: max }) => `${formatCount(queued.interactive)} of ${formatCount(max)}`,
        holds: 'number',
        sortBy: ({ queued }) => queued.interactive,
      },
      {
        title: 'Oldest',
        cell: ({ oldest_ms: ms }) => (ms === 0 ? '–' : formatMs(ms)),
        holds: 'number',
        sortBy: ({ oldest_ms: ms }) => ms,
      },
      {
        title: 'Batch lines queued',
        cell: ({ queued }) => formatCount(queued.batch),
        holds: 'number',
        sortBy: ({ queued }) => queued.batch,
      },
    ],
  });
}
