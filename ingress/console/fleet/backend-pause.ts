import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { FleetView } from '../../routes/fleet.ts';
import { ReasonField } from '../account/reason-field.ts';
import type { Api } from '../api/api.ts';
import { ConfirmDialog } from '../controls/confirm-dialog.ts';
import { TextField } from '../controls/field.ts';
import { StateBadge } from '../controls/state-badge.ts';
import { formatTime } from '../page/format.ts';

type Backend = FleetView['backends'][number];

const words = { busy: 'busy', loading: 'loads its model', account: 'refuses our account' } as const;
const tones = { busy: 'neutral', loading: 'warning', account: 'bad' } as const;

/** Why a backend is not called, and the button that pauses it or ends its pause. */
export function PauseCell({ backend: { backend, paused, pauses }, ask }: { backend: Backend; ask: () => void }) {
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

export function PauseDialog({ backend: { backend, paused }, api, done, close }: DialogProps) {
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
