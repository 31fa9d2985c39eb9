import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Api } from '../api/api.ts';
import { ConfirmDialog, ReasonField } from '../page/actions.ts';
import { TextField } from '../page/fields.ts';
import type { Backend } from './backend-state.ts';

type Props = { backend: Backend; api: Api; done: () => void; close: () => void };

/** Asks for a pause of a backend, or for its end. */
export function PauseDialog({ backend: { backend, paused }, api, done, close }: Props) {
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
