import { h } from 'preact';
import type { FleetView } from '../../routes/fleet.ts';
import type { FleetHistory } from '../../routes/fleet-history.ts';
import type { Api } from '../api/api.ts';
import { useLoaded, usePolled } from '../api/use-loaded.ts';
import { formatCount, formatTime } from '../page/format.ts';
import { ShortId } from '../page/identifiers.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { type Column, Table } from '../page/table.ts';
import { TimeAgo } from '../page/time-ago.ts';
import type { RecentCalls } from './backend-state.ts';
import { BackendTable } from './backend-table.ts';

/** The fleet at a time (seconds since 1970), and the calls of the time before it. */
export type FleetNow = { fleet: FleetView; at: number; recent: readonly RecentCalls[]; recentSeconds: number };

export const fleetEveryMs = 2_000;
/** Of five minutes, the present one included. */
const recentSteps = 3;

export async function readFleet(api: Api, signal: AbortSignal): Promise<FleetNow> {
  const [fleet, history] = await Promise.all([
    api.call<FleetView>('/admin/fleet', { signal }),
    api.call<FleetHistory>(`/admin/fleet/history?step=minutes&steps=${recentSteps}`, { signal }),
  ]);
  const at = Date.now() / 1_000;
  const begun = Date.parse(history.data[0]?.start ?? '') / 1_000;
  // The clock of this browser may be wrong.
  const recentSeconds = Math.min(Math.max(at - begun, 1), recentSteps * history.step_seconds);
  return { fleet, at, recent: history.total.backends, recentSeconds };
}

/** What all backends and processes do now, in detail. */
export function FleetPage({ api, docsUrl }: { api: Api; docsUrl: string }) {
  const loaded = useLoaded((signal) => readFleet(api, signal), []);
  usePolled(loaded, { everyMs: fleetEveryMs });
  return [
    h('div', { class: 'page-head' }, h('h1', { tabIndex: -1 }, 'Fleet'), loaded.value && h(Live, loaded.value)),
    h(LoadedView<FleetNow>, {
      loaded,
      what: 'the fleet',
      lines: 20,
      children: ({ fleet, recent }) => [
        h('h2', null, 'Backends'),
        h(BackendTable, { fleet, recent, api, docsUrl, reload: loaded.reload }),
        h('h2', null, 'Workers'),
        h(WorkerTable, { fleet }),
        h('h2', null, 'Ingresses'),
        h(IngressTable, { fleet }),
      ],
    }),
  ];
}

/** When what is shown was read. */
export function Live({ at }: { at: number }) {
  return h('span', { class: 'live' }, 'updated ', h(TimeAgo, { at }));
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
