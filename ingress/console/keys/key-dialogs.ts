import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Key } from '../../routes/present-key.ts';
import { ConfirmDialog } from '../page/actions.ts';
import { Choice, TextField } from '../page/fields.ts';
import { lastInGrace, wasUsedInTheLastDay } from './key-state.ts';

type KeyDialogProps = { shown: Key; close: () => void };

const graces = { none: 'none', hour: '1 hour', day: '1 day', week: '7 days' };
type Grace = keyof typeof graces;
const graceSeconds: Record<Grace, number> = { none: 0, hour: 3_600, day: 86_400, week: 604_800 };

/** Asks for how long the old key stays valid. */
export function RotateDialog({ shown, run, close }: KeyDialogProps & { run: (graceSeconds: number) => Promise<void> }) {
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

type Revocation = KeyDialogProps & {
  /** The other keys of the account. */
  others: readonly Key[];
  run: (endsRequests: boolean) => Promise<void>;
};

/** For a key in use, its name has to be typed. What the key has begun ends with it, unless the user says otherwise. */
export function RevokeDialog({ shown, others, run, close }: Revocation) {
  const [typed, setTyped] = useState('');
  const [endsRequests, setEndsRequests] = useState(true);
  const [isInUse] = useState(() => shown.purpose === null && wasUsedInTheLastDay(shown, Date.now()));
  const last = lastInGrace(others, Date.now());
  const isReady = !isInUse || wordsIn(typed) === wordsIn(shown.name);
  return h(
    ConfirmDialog,
    {
      title: 'Revoke this key?',
      action: 'Revoke',
      isDangerous: true,
      isReady,
      close,
      run: () => run(endsRequests),
    },
    h(
      'p',
      null,
      h(KeyName, { shown }),
      ' stops working everywhere, immediately: programs that use it get 401 INVALID_KEY.',
    ),
    h(
      'label',
      null,
      h('input', {
        type: 'checkbox',
        checked: endsRequests,
        onChange: ({ currentTarget }: { currentTarget: HTMLInputElement }) => setEndsRequests(currentTarget.checked),
      }),
      'End its requests and batches, and those of keys that it has replaced. Otherwise they continue, and use your quota.',
    ),
    last &&
      h(
        'p',
        { class: 'warning' },
        `Then only the old key ${last.key} is left, which stops working when its grace ends.`,
      ),
    isInUse && [
      h('p', { class: 'warning' }, 'This key was used in the last 24 hours.'),
      h(TextField, { label: `Type its name to confirm: ${shown.name}`, value: typed, change: setTyped }),
    ],
  );
}

/** As a page shows it: white space is one space. */
function wordsIn(text: string): string {
  return text.trim().replace(/\s+/g, ' ');
}

function KeyName({ shown: { name, key } }: { shown: Key }) {
  return [h('strong', null, name), ' (', h('code', null, key), ')'];
}
