import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Batch } from '../../api/response-schemas.ts';
import type { RequestList } from '../../requests/request-schemas.ts';
import type { Key } from '../../routes/keys/key-schemas.ts';
import type { Api } from '../api/api.ts';
import { canBeCancelled } from '../batches/batch-words.ts';
import { Choice } from '../controls/choice.ts';
import { ConfirmDialog } from '../controls/confirm-dialog.ts';
import { TextField } from '../controls/field.ts';
import { useLoaded } from '../page/use-loaded.ts';
import { wasUsedInTheLastDay } from './key-state.ts';

type Dialog = { shown: Key; close: () => void };

const graces = { none: 'none', hour: '1 hour', day: '1 day', week: '7 days' };
type Grace = keyof typeof graces;
const graceSeconds: Record<Grace, number> = { none: 0, hour: 3_600, day: 86_400, week: 604_800 };

/** Asks for how long the old key stays valid. */
export function RotateDialog({ shown, run, close }: Dialog & { run: (graceSeconds: number) => Promise<void> }) {
  const [grace, setGrace] = useState<Grace>('day');
  return h(
    ConfirmDialog,
    { title: 'Rotate this key?', action: 'Rotate', run: () => run(graceSeconds[grace]), close },
    h(
      'p',
      null,
      h(KeyName, { shown }),
      ' gets a successor, which is shown once. It has the same settings. Quota, usage and the limits of your plan stay the same.',
    ),
    h(Choice<Grace>, { legend: 'Grace for the old key', options: graces, chosen: grace, choose: setGrace }),
    h(
      'p',
      { role: 'status' },
      grace === 'none'
        ? 'The old key stops working everywhere, immediately: programs that use it get 401 INVALID_KEY.'
        : `The old key works for ${graces[grace]} more, but not beyond its own end. You can revoke it before.`,
    ),
  );
}

type Revocation = Dialog & { api: Api; run: (endsRequests: boolean) => Promise<void> };

/** For a key in use, its name has to be typed. What the key has begun ends with it, unless the user says otherwise. */
export function RevokeDialog({ api, shown, run, close }: Revocation) {
  const [typed, setTyped] = useState('');
  const [endsRequests, setEndsRequests] = useState(true);
  const [isInUse] = useState(() => wasUsedInTheLastDay(shown, Date.now()));
  const looked = useLoaded((signal) => mayHaveBegun(api, shown, signal), []);
  const asks = looked.value !== false;
  const isReady = !isInUse || wordsIn(typed) === wordsIn(shown.name);
  return h(
    ConfirmDialog,
    {
      ...{ title: 'Revoke this key?', action: 'Revoke', isDangerous: true, isReady, close },
      run: () => run(asks && endsRequests),
    },
    h(
      'p',
      null,
      h(KeyName, { shown }),
      ' stops working everywhere, immediately: programs that use it get 401 INVALID_KEY.',
    ),
    asks &&
      h(
        'label',
        null,
        h('input', {
          type: 'checkbox',
          checked: endsRequests,
          onChange: ({ currentTarget }: { currentTarget: HTMLInputElement }) => setEndsRequests(currentTarget.checked),
        }),
        'End its requests and batches. Otherwise they continue, and use your quota.',
      ),
    isInUse && [
      h('p', { class: 'warning' }, 'This key was used in the last 24 hours.'),
      h(TextField, { label: `Type its name to confirm: ${shown.name}`, value: typed, change: setTyped }),
    ],
  );
}

/** Whether the key has running requests or unfinished batches. Also true if the newest of the account do not say. */
async function mayHaveBegun(api: Api, { id }: Key, signal: AbortSignal): Promise<boolean> {
  const [requests, batches] = await Promise.all([
    api.call<RequestList>(`/v1/requests?limit=100&key_id=${id}`, { signal }),
    api.call<{ data: Batch[]; has_more: boolean }>('/v1/batches?limit=100', { signal }),
  ]);
  return (
    requests.has_more ||
    requests.data.some(({ state }) => state !== 'ended') ||
    batches.has_more ||
    batches.data.some((batch) => batch.key_id === id && canBeCancelled(batch))
  );
}

/** As a page shows it: white space is one space. */
function wordsIn(text: string): string {
  return text.trim().replace(/\s+/g, ' ');
}

function KeyName({ shown: { name, key } }: { shown: Key }) {
  return [h('strong', null, name), ' (', h('code', null, key), ')'];
}
