import { h } from 'preact';
import type { FleetView } from '../../routes/fleet.ts';
import type { Api } from '../api/api.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { useLoaded, usePolled } from '../page/use-loaded.ts';
import { BackendTable } from './backend-table.ts';
import { Findings } from './findings.ts';
import { PoolTable } from './pool-table.ts';
import { IngressTable, WorkerTable } from './process-tables.ts';

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
