import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { AccountKey, MintedKey } from '../../api/response-schemas.ts';
import type { Api } from '../api/api.ts';
import { Failure } from '../page/failure.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { useDoing } from '../page/use-doing.ts';
import { useLoaded } from '../page/use-loaded.ts';
import { RevokeDialog, RotateDialog } from './key-dialogs.ts';
import { KeyTable } from './key-table.ts';
import { NewKey } from './new-key.ts';

type Asking = { what: 'rotate' | 'revoke'; key: AccountKey };
type Props = {
  api: Api;
  /** A new key that is not dismissed yet: it is shown again after a visit to another page. */
  fresh: string | undefined;
  setFresh: (key: string | undefined) => void;
};

const path = '/v1/keys/developer';

export function KeysPage({ api, fresh, setFresh }: Props) {
  const loaded = useLoaded((signal) => api.call<{ data: AccountKey[] }>(path, { signal }), []);
  const [asking, setAsking] = useState<Asking>();

  /** Reloads the list after success and failure: a response can be lost, and another user can have changed the key first. */
  async function change(change: 'mint' | 'rotate' | 'revoke', body: object): Promise<void> {
    try {
      const { key } = await api.call<MintedKey>(change === 'mint' ? path : `${path}/${change}`, {
        method: 'POST',
        body,
      });
      setFresh(key.endsWith('*') ? undefined : key);
    } finally {
      loaded.reload();
    }
  }

  const close = () => setAsking(undefined);
  return [
    h('h1', { tabIndex: -1 }, 'Keys'),
    h(
      'p',
      { class: 'lead' },
      'Your programs call the API with this key. An account has one key at a time. Keep it secret: anyone who has it can use your quota.',
    ),
    fresh && h(NewKey, { value: fresh, putAway: () => setFresh(undefined) }),
    h(LoadedView<{ data: AccountKey[] }>, {
      loaded,
      what: 'your keys',
      children: ({ data }) => [
        !data.some(({ state }) => state === 'active') &&
          h(NoKey, { isFirst: data.length === 0, mint: () => change('mint', {}) }),
        data.length > 0 && h(KeyTable, { keys: data, ask: (what, key) => setAsking({ what, key }) }),
      ],
    }),
    asking?.what === 'rotate' &&
      h(RotateDialog, { shown: asking.key, run: () => change('rotate', { key: asking.key.key }), close }),
    asking?.what === 'revoke' &&
      h(RevokeDialog, { shown: asking.key, run: () => change('revoke', { key: asking.key.key }), close }),
  ];
}

function NoKey({ isFirst, mint }: { isFirst: boolean; mint: () => Promise<void> }) {
  const doing = useDoing(mint);
  return h(
    'section',
    { class: 'empty' },
    h('p', null, isFirst ? 'You have no key yet.' : 'You have no active key: no program can call the API as you.'),
    h('button', { type: 'button', class: 'primary', 'aria-disabled': doing.busy, onClick: doing.run }, 'Mint a key'),
    doing.error !== undefined && h(Failure, { error: doing.error }),
  );
}
