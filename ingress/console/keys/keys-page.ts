import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { DeveloperKey, MintedKey } from '../../api/response-schemas.ts';
import type { Api } from '../api/api.ts';
import { Failure } from '../page/failure.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { useDoing } from '../page/use-doing.ts';
import { useLoaded } from '../page/use-loaded.ts';
import { RevokeDialog, RotateDialog } from './key-dialogs.ts';
import { KeyTable } from './key-table.ts';
import { NewKey } from './new-key.ts';

type Asking = { what: 'rotate' | 'revoke'; key: DeveloperKey };
type Props = {
  api: Api;
  /** A key that was minted and not put away yet: whoever looks at another page meanwhile finds it here again. */
  fresh: string | undefined;
  setFresh: (key: string | undefined) => void;
};

const path = '/v1/keys/developer';

/** Mint, rotate and revoke the account's key. */
export function KeysPage({ api, fresh, setFresh }: Props) {
  const loaded = useLoaded((signal) => api.call<{ data: DeveloperKey[] }>(path, { signal }), []);
  const [asking, setAsking] = useState<Asking>();

  /** Whatever comes of it, the list says what is so: an answer can be lost, and somebody else can have been first. */
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
      'Your programs call the API with this key. An account has one at a time; whoever has it can spend what the account may.',
    ),
    fresh && h(NewKey, { value: fresh, putAway: () => setFresh(undefined) }),
    h(LoadedView<{ data: DeveloperKey[] }>, {
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
    h('p', null, isFirst ? 'You have no key yet.' : 'You have no active key: nothing can call the API as you.'),
    h('button', { type: 'button', class: 'primary', 'aria-disabled': doing.busy, onClick: doing.run }, 'Mint a key'),
    doing.error !== undefined && h(Failure, { error: doing.error }),
  );
}
