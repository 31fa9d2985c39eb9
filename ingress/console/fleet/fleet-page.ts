import { h } from 'preact';
import { useMemo } from 'preact/hooks';
import type { FleetView } from '../../routes/fleet.ts';
import type { Api } from '../api/api.ts';
import { useLoaded, usePolled } from '../api/use-loaded.ts';
import { formatCount, formatMs, formatTime } from '../page/format.ts';
import { Icon, StateBadge } from '../page/icons.ts';
import { ShortId } from '../page/identifiers.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { type Column, Table } from '../page/table.ts';
import { BackendTable } from './backend-table.ts';
import { findingsIn } from './fleet-findings.ts';

const refreshEveryMs = 2_000;

/** What all processes, queues and backends do now. */
export function FleetPage({ api }: { api: Api }) {
  const loaded = useLoaded((signal) => api.call<FleetView>('/admin/fleet', { signal }), []);
  usePolled(loaded, { everyMs: refreshEveryMs });
  return [
    h('h1', { tabIndex: -1 }, 'Fleet'),
    h(LoadedView<FleetView>, {
      loaded,
      what: 'the fleet',
      children: (fleet) => [
        h(Findings, { fleet }),
        h('h2', null, 'Pools'),
        h(PoolTable, { fleet }),
        h('h2', null, 'Backends'),
        h(BackendTable, { fleet, api, reload: loaded.reload }),
        h('h2', null, 'Workers'),
        h(WorkerTable, { fleet }),
        h('h2', null, 'Ingresses'),
        h(IngressTable, { fleet }),
      ],
    }),
  ];
}

/** What is wrong, or that nothing is. Announced when something else is wrong, and not each time that a number changes. */
function Findings({ fleet }: { fleet: FleetView }) {
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

type Model = FleetView['pools'][number]['models'][number] & { pool: string; workers: number };

/** The queue of each model, with the workers of its pool. */
function PoolTable({ fleet: { pools } }: { fleet: FleetView }) {
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

type Worker = FleetView['workers'][number];
type Ingress = FleetView['ingresses'][number];
type Process = { id: string; generation: string; started_at: string };

function WorkerTable({ fleet }: { fleet: FleetView }) {
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

function IngressTable({ fleet }: { fleet: FleetView }) {
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
