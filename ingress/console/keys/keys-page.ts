import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Key } from '../../routes/present-key.ts';
import type { Api } from '../api/api.ts';
import { Failure } from '../page/failure.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { useDoing } from '../page/use-doing.ts';
import { useLoaded } from '../page/use-loaded.ts';
import { GuestKeys } from './guest-keys.ts';
import type { FullKey, HeldKeys } from './held-keys.ts';
import { createKeyChanges } from './key-changes.ts';
import { RevokeDialog, RotateDialog } from './key-dialogs.ts';
import { KeyForm } from './key-form.ts';
import { shownState } from './key-state.ts';
import { KeyTable } from './key-table.ts';
import { NewKey } from './new-key.ts';

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
