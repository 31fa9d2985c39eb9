import { h } from 'preact';
import { useId, useState } from 'preact/hooks';
import type { Key } from '../../routes/present-key.ts';
import type { Api } from '../api/api.ts';
import { useLoaded } from '../api/use-loaded.ts';
import { ConfirmDialog, useDoing } from '../page/actions.ts';
import { Choice, TextField } from '../page/fields.ts';
import { useFocusedHeading } from '../page/focus.ts';
import { CopyButton } from '../page/identifiers.ts';
import { Failure, LoadedView } from '../page/loaded-view.ts';
import { GuestKeys } from './guest-keys-section.ts';
import { createKeyChanges, type FullKey, type HeldKeys } from './held-keys.ts';
import { KeyForm } from './key-form.ts';
import { shownState, wasUsedInTheLastDay } from './key-state.ts';
import { KeyTable } from './key-table.ts';

type OpenDialog = { what: 'create' } | { what: 'edit' | 'rotate' | 'revoke'; key: Key };
type Props = {
  api: Api;
  held: HeldKeys;
  /** Opens "Try it" with this key. */
  tryOut: (key: FullKey) => void;
};

export function KeysPage({ api, held, tryOut }: Props) {
  const loaded = useLoaded((signal) => api.call<{ data: Key[] }>('/v1/keys', { signal }), []);
  const changes = createKeyChanges({ api, held, changed: loaded.reload });
  const [asking, setAsking] = useState<OpenDialog>();

  return [
    h('h1', { tabIndex: -1 }, 'Keys'),
    h(
      'p',
      { class: 'lead' },
      'Your programs call the API with a key. Give each program a key of its own: you can then limit it, and replace its key while the others continue to work. Keep keys secret: anyone who has one can use your quota.',
    ),
    held.fresh.map((shown) =>
      h(NewKey, {
        key: shown.key,
        shown,
        tryOut: () => tryOut(shown),
        dismiss: () => held.dismiss(shown.key),
      }),
    ),
    h(LoadedView<{ data: Key[] }>, {
      loaded,
      what: 'your keys',
      children: ({ data }) => [
        h(Start, {
          keys: data,
          create: () => setAsking({ what: 'create' }),
          mint: changes.mint,
          reload: loaded.reload,
        }),
        data.length > 0 &&
          h(KeyTable<Key>, {
            caption: 'Keys of your account',
            keys: data,
            ask: (what, key) => setAsking({ what, key }),
          }),
      ],
    }),
    asking && h(Dialog, { api, asking, changes, close: () => setAsking(undefined) }),
    h(GuestKeys, { api }),
  ];
}

type DialogProps = {
  api: Api;
  asking: OpenDialog;
  changes: ReturnType<typeof createKeyChanges>;
  close: () => void;
};

function Dialog({ api, asking, changes, close }: DialogProps) {
  if (asking.what === 'create') return h(KeyForm, { api, save: changes.create, close });
  const { what, key } = asking;
  if (what === 'edit') return h(KeyForm, { api, shown: key, save: (fields) => changes.edit(key, fields), close });
  if (what === 'rotate') return h(RotateDialog, { shown: key, run: (grace) => changes.rotate(key, grace), close });
  return h(RevokeDialog, { shown: key, run: (endsRequests) => changes.revoke(key, endsRequests), close });
}

type StartProps = { keys: readonly Key[]; create: () => void; mint: () => Promise<void>; reload: () => void };

/** Buttons for new keys. They say so if the account has no key that can be used. */
function Start({ keys, create, mint, reload }: StartProps) {
  const doing = useDoing(mint);
  const isUsable = keys.some((key) => ['active', 'in grace'].includes(shownState(key, Date.now())));
  const hasDefault = keys.some((key) => key.default);
  return h(
    'section',
    { class: isUsable ? '' : 'empty', 'aria-label': 'New keys' },
    !isUsable &&
      h(
        'p',
        null,
        keys.length === 0 ? 'You have no key yet.' : 'You have no active key: no program can call the API as you.',
      ),
    h(
      'div',
      { class: 'actions' },
      h('button', { type: 'button', class: 'primary', onClick: create }, 'Create a key'),
      !hasDefault &&
        h('button', { type: 'button', 'aria-disabled': doing.busy, onClick: doing.run }, 'Create the default key'),
      h('button', { type: 'button', onClick: reload }, 'Refresh'),
    ),
    !hasDefault &&
      h('p', { class: 'quiet' }, 'An account can have one default key, which has no settings and no end of its own.'),
    doing.error !== undefined && h(Failure, { error: doing.error }),
  );
}

type NewKeyProps = {
  shown: FullKey;
  /** Opens "Try it" with this key. */
  tryOut: () => void;
  dismiss: () => void;
};

/** The full value, shown once, and what to do next. */
function NewKey({ shown: { name, key }, tryOut, dismiss }: NewKeyProps) {
  const id = useId();
  const heading = useFocusedHeading();
  return h(
    'section',
    { class: 'notice', 'aria-labelledby': id },
    h('h2', { id, tabIndex: -1, ref: heading }, `Your new key "${name}"`),
    h('p', null, 'Store it now with the secrets of your program. It is shown only once and cannot be recovered.'),
    h('p', null, h('code', { class: 'key' }, key)),
    h(
      'div',
      { class: 'actions' },
      h(CopyButton, { text: key, label: 'Copy' }),
      h('button', { type: 'button', onClick: tryOut }, 'Try it'),
      h('button', { type: 'button', onClick: dismiss }, 'I have stored it'),
    ),
  );
}

type KeyDialogProps = { shown: Key; close: () => void };

const graces = { none: 'none', hour: '1 hour', day: '1 day', week: '7 days' };
type Grace = keyof typeof graces;
const graceSeconds: Record<Grace, number> = { none: 0, hour: 3_600, day: 86_400, week: 604_800 };

/** Asks for how long the old key stays valid. */
function RotateDialog({ shown, run, close }: KeyDialogProps & { run: (graceSeconds: number) => Promise<void> }) {
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

type Revocation = KeyDialogProps & { run: (endsRequests: boolean) => Promise<void> };

/** For a key in use, its name has to be typed. What the key has begun ends with it, unless the user says otherwise. */
function RevokeDialog({ shown, run, close }: Revocation) {
  const [typed, setTyped] = useState('');
  const [endsRequests, setEndsRequests] = useState(true);
  const [isInUse] = useState(() => wasUsedInTheLastDay(shown, Date.now()));
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
