import { h } from 'preact';
import { useId, useState } from 'preact/hooks';
import type { Key } from '../../routes/present-key.ts';
import type { Api } from '../api/api.ts';
import { useLoaded } from '../api/use-loaded.ts';
import { useFocusedHeading } from '../page/focus.ts';
import { formatRest } from '../page/format.ts';
import { CopyButton } from '../page/identifiers.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { GuestKeys } from './guest-keys-section.ts';
import { createKeyChanges, type FullKey, type HeldKeys } from './held-keys.ts';
import { RevokeDialog, RotateDialog } from './key-dialogs.ts';
import { KeyForm } from './key-form.ts';
import { lastInGrace, restOf, usableKeys } from './key-state.ts';
import { KeyTable } from './key-table.ts';

type OpenDialog = { what: 'create' } | { what: 'edit' | 'rotate' | 'revoke'; key: Key };
type Props = {
  api: Api;
  held: HeldKeys;
  /** Resolves once the key of "Try it" is revoked, if that page is left for this one. */
  untilRevoked: () => Promise<void>;
  /** Whether the address asks for the dialog of a new key. */
  isNewKey: boolean;
  /** Opens "Try it" with this key. */
  tryOut: (key: FullKey) => void;
};

export function KeysPage({ api, held, untilRevoked, isNewKey, tryOut }: Props) {
  const loaded = useLoaded(async (signal) => {
    await untilRevoked();
    return await api.call<{ data: Key[] }>('/v1/keys', { signal });
  }, []);
  const changes = createKeyChanges({ api, held, changed: loaded.reload });
  const [chosen, setAsking] = useState<OpenDialog>();
  const asking = isNewKey ? ({ what: 'create' } as const) : chosen;
  const keys = loaded.value?.data ?? [];

  function close(): void {
    setAsking(undefined);
    if (isNewKey) window.location.replace('#keys'); // the same link opens it again
  }

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
      lines: 6,
      children: ({ data }) => [
        h(Start, { keys: data, create: () => setAsking({ what: 'create' }), reload: loaded.reload }),
        data.length > 0 &&
          h(KeyTable<Key>, {
            caption: 'Keys of your account',
            keys: data,
            ask: (what, key) => setAsking({ what, key }),
          }),
      ],
    }),
    asking && h(Dialog, { api, asking, keys, changes, close }),
    h(GuestKeys, { api }),
  ];
}

type DialogProps = {
  api: Api;
  asking: OpenDialog;
  keys: readonly Key[];
  changes: ReturnType<typeof createKeyChanges>;
  close: () => void;
};

function Dialog({ api, asking, keys, changes, close }: DialogProps) {
  if (asking.what === 'create') return h(KeyForm, { api, save: changes.create, close });
  const { what, key } = asking;
  if (what === 'edit') return h(KeyForm, { api, shown: key, save: (fields) => changes.edit(key, fields), close });
  if (what === 'rotate') return h(RotateDialog, { shown: key, run: (grace) => changes.rotate(key, grace), close });
  const others = keys.filter(({ id }) => id !== key.id);
  return h(RevokeDialog, { shown: key, others, run: (endsRequests) => changes.revoke(key, endsRequests), close });
}

type StartProps = { keys: readonly Key[]; create: () => void; reload: () => void };

/** The button for a new key. It says so if no program has a key, or only one that ends soon. */
function Start({ keys, create, reload }: StartProps) {
  const now = Date.now();
  const isUsable = usableKeys(keys, now).length > 0;
  const last = lastInGrace(keys, now);
  return h(
    'section',
    { class: isUsable ? '' : 'empty', 'aria-label': 'New keys' },
    !isUsable &&
      h(
        'p',
        null,
        keys.length === 0
          ? 'You have no key. Create one to call the API.'
          : 'You have no active key. Create one to call the API.',
      ),
    last &&
      h(
        'p',
        { role: 'status', class: 'warning' },
        `Only the old key "${last.name}" is left. It stops working in ${formatRest(restOf(last, now) ?? 0)}. Create a key before that.`,
      ),
    h(
      'div',
      { class: 'actions' },
      h('button', { type: 'button', class: 'primary', onClick: create }, 'Create a key'),
      h('button', { type: 'button', onClick: reload }, 'Refresh'),
      h('a', { href: '#usage' }, 'Usage by key'),
    ),
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
