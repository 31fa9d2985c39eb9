import { h } from 'preact';
import type { FleetView } from '../../routes/fleet.ts';
import { formatCount, formatMs } from '../page/format.ts';
import { StateBadge } from '../page/icons.ts';
import { type Column, Table } from '../page/table.ts';
import { Bar } from './backend-matrix.ts';

type Row = FleetView['pools'][number]['models'][number] & { pool: string; workers: number };

/** The queue of each model, with the workers of its pool. */
export function QueueTable({ fleet: { pools } }: { fleet: FleetView }) {
  const rows = pools.flatMap(({ pool, workers, models }) => models.map((model) => ({ ...model, pool, workers })));
  const columns: Column<Row>[] = [
    { title: 'Model', cell: ({ model }) => model, sortBy: ({ model }) => model, phone: 'first' },
    {
      title: 'Workers',
      cell: ({ workers }) => (workers === 0 ? h(StateBadge, { state: 'none', tone: 'bad' }) : workers),
      holds: 'number',
      phone: 'none',
    },
    {
      title: 'Queued',
      cell: (row) => h(Queued, row),
      sortBy: ({ queued }) => queued.interactive,
      phone: 'end',
    },
    {
      title: 'Oldest',
      cell: ({ oldest_ms: ms }) => (ms === 0 ? '–' : formatMs(ms)),
      holds: 'number',
      sortBy: ({ oldest_ms: ms }) => ms,
      phone: 'none',
    },
    {
      title: 'Batch lines',
      cell: ({ queued }) => [formatCount(queued.batch), h('span', { class: 'on-phone' }, ' lines of batches')],
      holds: 'number',
      sortBy: ({ queued }) => queued.batch,
      phone: 'second',
    },
  ];
  const pool: Column<Row> = { title: 'Pool', cell: ({ pool }) => pool, phone: 'second' };
  return h(Table<Row>, {
    caption: 'Requests and lines of batches that wait, by model',
    rows,
    rowKey: ({ model }) => model,
    columns: pools.length > 1 ? [...columns.slice(0, 1), pool, ...columns.slice(1)] : columns,
  });
}

function Queued({ queued: { interactive }, queue_max: max }: Row) {
  return h(
    'div',
    { class: 'queued' },
    h('span', null, `${formatCount(interactive)} of ${formatCount(max)}`),
    h(Bar, { part: interactive, of: max }),
  );
}
