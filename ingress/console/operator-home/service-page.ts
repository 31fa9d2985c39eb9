import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { FleetHistory } from '../../routes/fleet-history.ts';
import type { Api } from '../api/api.ts';
import { useLoaded, usePolled } from '../api/use-loaded.ts';
import { BackendMatrix } from '../fleet/backend-matrix.ts';
import { type FleetNow, fleetEveryMs, Live, readFleet } from '../fleet/fleet-page.ts';
import { QueueTable } from '../fleet/queue-table.ts';
import { Choice } from '../page/fields.ts';
import { LoadedView, Panel } from '../page/loaded-view.ts';
import { IncidentBoxes, IncidentCount } from './incident-boxes.ts';
import { LatestChanges } from './latest-changes.ts';
import { historyQuery, type RangeName, rangeLabels } from './service-numbers.ts';
import { ServiceTiles } from './service-tiles.ts';
import { TopAccounts } from './top-accounts.ts';

const historyEveryMs = 10_000;

/** The home of operators: what is wrong and why, how the service does, and who uses it. */
export function ServicePage({ api, docsUrl }: { api: Api; docsUrl: string }) {
  const [range, setRange] = useState<RangeName>('1h');
  const now = useLoaded((signal) => readFleet(api, signal), []);
  const history = useLoaded(
    (signal) => api.call<FleetHistory>(`/admin/fleet/history?${historyQuery(range)}`, { signal }),
    [range],
  );
  usePolled(now, { everyMs: fleetEveryMs });
  usePolled(history, { everyMs: historyEveryMs });
  const fleet = now.value?.fleet;
  return [
    h(
      'div',
      { class: 'page-head' },
      h('h1', { tabIndex: -1 }, 'Service'),
      fleet && h(IncidentCount, { fleet }),
      h(Choice<RangeName>, { legend: 'Time', options: rangeLabels, chosen: range, choose: setRange }),
      now.value && h(Live, now.value),
    ),
    fleet && h(IncidentBoxes, { fleet, api, docsUrl }),
    h(ServiceTiles, { api, range, history, fleet }),
    h(
      'div',
      { class: 'columns' },
      h(
        Panel,
        { title: 'Backends', more: { href: '#fleet', link: 'Fleet' } },
        h(LoadedView<FleetNow>, {
          loaded: now,
          what: 'the backends',
          lines: 8,
          children: (parts) => h(BackendMatrix, { ...parts, api, docsUrl, reload: now.reload }),
        }),
      ),
      h(TopAccounts, { api, range }),
      h(
        Panel,
        { title: 'Queue by model' },
        h(LoadedView<FleetNow>, {
          loaded: now,
          what: 'the queues',
          lines: 5,
          children: (parts) => h(QueueTable, parts),
        }),
      ),
      h(LatestChanges, { api }),
    ),
  ];
}
