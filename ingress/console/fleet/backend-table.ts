import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { FleetView } from '../../routes/fleet.ts';
import type { Api } from '../api/api.ts';
import { ConfirmDialog, ReasonField } from '../page/actions.ts';
import { TextField } from '../page/fields.ts';
import { formatCount, formatMs, formatShare, formatTime } from '../page/format.ts';
import { StateBadge, type Tone } from '../page/icons.ts';
import { Table } from '../page/table.ts';

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
    caption: 'Backends by model; calls of about the last minute, and the share of their prompts that was cached',
    rows,
    rowKey: ({ backend, health }) => `${backend.backend} ${health?.model}`,
    columns: [
      { title: 'Backend', cell: ({ backend }) => nameOf(backend), sortBy: ({ backend }) => backend.backend },
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
        title: 'Cached',
        cell: ({ health }) => formatShare(health?.cached_tokens ?? 0, health?.prompt_tokens ?? 0),
        holds: 'number',
        sortBy: ({ health }) => health?.prompt_tokens && health.cached_tokens / health.prompt_tokens,
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

function nameOf({ backend, weight }: Backend): string {
  return weight === 1 ? backend : `${backend}, weight ${weight}`;
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

const words = { busy: 'busy', loading: 'loads its model', account: 'refuses our account' } as const;
const tones = { busy: 'neutral', loading: 'warning', account: 'bad' } as const;

/** Why a backend is not called, and the button that pauses it or ends its pause. */
function PauseCell({ backend: { backend, paused, pauses }, ask }: { backend: Backend; ask: () => void }) {
  const [shown] = [...pauses].sort((one, other) => other.left_ms - one.left_ms);
  return [
    paused !== null &&
      h(
        'span',
        { title: paused.reason ?? '' },
        `by ${paused.by}${paused.by_name === undefined ? '' : ` (${paused.by_name})`} until ${formatTime(paused.ends_at)} `,
      ),
    shown !== undefined && h(StateBadge, { state: words[shown.kind], tone: tones[shown.kind] }),
    h(
      'button',
      { type: 'button', onClick: ask, 'aria-label': `${paused === null ? 'Pause' : 'Resume'} ${backend}` },
      paused === null ? 'Pause' : 'Resume',
    ),
  ];
}

type DialogProps = { backend: Backend; api: Api; done: () => void; close: () => void };

function PauseDialog({ backend: { backend, paused }, api, done, close }: DialogProps) {
  const [isPaused] = useState(paused !== null);
  const [minutes, setMinutes] = useState('30');
  const [reason, setReason] = useState('');
  const path = `/admin/fleet/backends/${encodeURIComponent(backend)}/pause`;

  async function run(): Promise<void> {
    const why = reason.trim();
    if (isPaused) {
      const query = why === '' ? '' : `?${new URLSearchParams({ reason: why })}`;
      await api.call(path + query, { method: 'DELETE' });
    } else {
      const body = { minutes: Number(minutes), ...(why !== '' && { reason: why }) };
      await api.call(path, { method: 'POST', body });
    }
    done();
  }

  const what = isPaused
    ? 'Workers call it again within two seconds.'
    : 'Calls in flight continue. Workers start no new ones. If no other backend of a model is left, its requests get 503.';
  return h(
    ConfirmDialog,
    {
      title: isPaused ? 'Resume this backend?' : 'Pause this backend?',
      action: isPaused ? 'Resume' : 'Pause',
      isDangerous: !isPaused,
      run,
      close,
    },
    h('p', null, h('code', null, backend)),
    h('p', null, what),
    !isPaused &&
      h(TextField, {
        label: 'Minutes',
        hint: 'At most 1,440, which is a day.',
        value: minutes,
        change: setMinutes,
        input: { type: 'number', min: 1, max: 1_440, step: 1, required: true },
      }),
    h(ReasonField, { reason, setReason }),
  );
}
