import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { FleetView } from '../../routes/fleet.ts';
import type { Api } from '../api/api.ts';
import { StateBadge, type Tone } from '../controls/state-badge.ts';
import { Table } from '../controls/table.ts';
import { formatCount, formatMs } from '../page/format.ts';
import { PauseCell, PauseDialog } from './backend-pause.ts';

type Backend = FleetView['backends'][number];
type Health = Backend['models'][number];
/** A backend that no worker serves has no model. */
type Row = { backend: Backend; health: Health | undefined };

/** Each backend with its calls, and its health for each model, of all workers together. */
export function BackendTable({ fleet: { backends }, api, reload }: { fleet: FleetView; api: Api; reload: () => void }) {
  const [asking, setAsking] = useState<string>();
  const asked = backends.find(({ backend }) => backend === asking);
  const rows = backends.flatMap((backend): Row[] =>
    backend.models.length === 0
      ? [{ backend, health: undefined }]
      : backend.models.map((health) => ({ backend, health })),
  );
  const table = h(Table<Row>, {
    caption: 'Backends by model; answered and failed calls of about the last minute',
    rows,
    rowKey: ({ backend, health }) => `${backend.backend} ${health?.model}`,
    columns: [
      { title: 'Backend', cell: ({ backend }) => backend.backend, sortBy: ({ backend }) => backend.backend },
      { title: 'Model', cell: ({ health }) => health?.model ?? '–', sortBy: ({ health }) => health?.model },
      { title: 'Location', cell: ({ backend }) => backend.location },
      { title: 'Breaker', cell: ({ health }) => (health === undefined ? '–' : h(StateBadge, breakerState(health))) },
      {
        title: 'Pause',
        cell: ({ backend }) => h(PauseCell, { backend, ask: () => setAsking(backend.backend) }),
        holds: 'text',
      },
      {
        title: 'Calls',
        cell: ({ backend }) => callsOf(backend),
        holds: 'number',
        sortBy: ({ backend }) => backend.calls,
      },
      {
        title: 'Shares',
        cell: ({ backend: { shares } }) => (shares === null ? '–' : formatCount(shares)),
        holds: 'number',
      },
      {
        title: 'First token',
        cell: ({ health }) => (health?.first_token_ms == null ? '–' : formatMs(health.first_token_ms)),
        holds: 'number',
        sortBy: ({ health }) => health?.first_token_ms ?? undefined,
      },
      {
        title: 'Answered',
        cell: ({ health }) => formatCount(health?.answered ?? 0),
        holds: 'number',
        sortBy: ({ health }) => health?.answered,
      },
      {
        title: 'Failed',
        cell: ({ health }) => formatCount(health?.failed ?? 0),
        holds: 'number',
        sortBy: ({ health }) => health?.failed,
      },
    ],
  });
  const close = () => setAsking(undefined);
  return [table, asked !== undefined && h(PauseDialog, { key: asking, backend: asked, api, done: reload, close })];
}

function callsOf({ calls, limit, per_worker: isPerWorker }: Backend): string {
  if (limit === null) return `${calls}, no limit`;
  return isPerWorker ? `${calls}, ${limit} per worker` : `${calls} of ${limit}`;
}

/** Each worker has its own breaker. */
function breakerState({ breakers }: Health): { state: string; tone: Tone } {
  const all = breakers.closed + breakers['half-open'] + breakers.open;
  if (breakers.closed === all) return { state: 'closed', tone: 'good' };
  const name = breakers.open > 0 ? 'open' : 'half-open';
  const count = breakers[name];
  return { state: count === all ? name : `${name} in ${count} of ${all}`, tone: name === 'open' ? 'bad' : 'warning' };
}
