import { h } from 'preact';
import type { FleetView } from '../../routes/fleet.ts';
import { ShortId } from '../controls/short-id.ts';
import { type Column, Table } from '../controls/table.ts';
import { formatCount, formatTime } from '../page/format.ts';

type Worker = FleetView['workers'][number];
type Ingress = FleetView['ingresses'][number];
type Process = { id: string; generation: string; started_at: string };

export function WorkerTable({ fleet }: { fleet: FleetView }) {
  return h(Table<Worker>, {
    caption: 'Workers that are alive',
    rows: fleet.workers,
    rowKey: ({ id }) => id,
    columns: [
      processColumn,
      { title: 'Pools', cell: ({ pools }) => pools.join(', ') || '–', holds: 'text' },
      countColumn<Worker>('Jobs in progress', ({ running }) => running),
      countColumn<Worker>('Waiting for a backend', ({ waiting }) => waiting),
      generationColumn,
      startedColumn,
    ],
  });
}

export function IngressTable({ fleet }: { fleet: FleetView }) {
  return h(Table<Ingress>, {
    caption: 'Ingresses that are alive',
    rows: fleet.ingresses,
    rowKey: ({ id }) => id,
    columns: [
      processColumn,
      countColumn<Ingress>('Connections', ({ connections }) => connections),
      countColumn<Ingress>('Requests waiting for a reply', ({ waiting }) => waiting),
      generationColumn,
      startedColumn,
    ],
  });
}

const processColumn: Column<Process> = { title: 'Process', cell: ({ id }) => h(ShortId, { id, what: 'process ID' }) };
const generationColumn: Column<Process> = {
  title: 'Plan file',
  cell: ({ generation }) => h('code', null, generation),
};
const startedColumn: Column<Process> = {
  title: 'Started',
  cell: ({ started_at: at }) => formatTime(at),
  sortBy: ({ started_at: at }) => at,
};

/** Null for a process of another release whose load cannot be read. */
function countColumn<Row>(title: string, countOf: (row: Row) => number | null): Column<Row> {
  return {
    title,
    cell: (row) => formatNullable(countOf(row)),
    holds: 'number',
    sortBy: (row) => countOf(row) ?? undefined,
  };
}

function formatNullable(count: number | null): string {
  return count === null ? '–' : formatCount(count);
}
