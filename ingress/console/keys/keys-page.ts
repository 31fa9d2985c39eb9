import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { DeveloperKey, MintedKey } from '../../openapi/answers.ts';
import type { Api } from '../api/api.ts';
import { Failure, LoadedView } from '../page/failure.ts';
import { useLoaded } from '../page/use-loaded.ts';
import { RevokeDialog, RotateDialog } from './key-dialogs.ts';
import { KeyTable } from './key-table.ts';
import { NewKey } from './new-key.ts';

type Asking = { what: 'rotate' | 'revoke'; key: DeveloperKey };
const path = '/v1/keys/developer';

/** Mint, rotate and revoke the account's key. A new key is on this page until it is put away, and nowhere else. */
export function KeysPage({ api }: { api: Api }) {
  const loaded = useLoaded((signal) => api.call<{ data: DeveloperKey[] }>(path, { signal }), []);
  const [fresh, setFresh] = useState<string>();
  const [asking, setAsking] = useState<Asking>();

  async function mint(): Promise<void> {
    const { key } = await api.call<MintedKey>(path, { method: 'POST', body: {} });
    // Minted meanwhile in another place: this answer has it masked, and the list shows it.
    setFresh(key.endsWith('*') ? undefined : key);
    loaded.reload();
  }

  async function rotate(key: string): Promise<void> {
    const answer = await api.call<MintedKey>(`${path}/rotate`, { method: 'POST', body: { key } });
    setFresh(answer.key);
    loaded.reload();
  }

  async function revoke(key: string): Promise<void> {
    await api.call(`${path}/revoke`, { method: 'POST', body: { key } });
    setFresh(undefined);
    loaded.reload();
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
        !data.some(({ state }) => state === 'active') && h(NoKey, { isFirst: data.length === 0, mint }),
        data.length > 0 && h(KeyTable, { keys: data, ask: (what, key) => setAsking({ what, key }) }),
      ],
    }),
    asking?.what === 'rotate' && h(RotateDialog, { shown: asking.key, run: () => rotate(asking.key.key), close }),
    asking?.what === 'revoke' && h(RevokeDialog, { shown: asking.key, run: () => revoke(asking.key.key), close }),
  ];
}

function NoKey({ isFirst, mint }: { isFirst: boolean; mint: () => Promise<void> }) {
  const [state, setState] = useState<{ busy: boolean; error?: unknown }>({ busy: false });

  async function run(): Promise<void> {
    setState({ busy: true });
    try {
      await mint();
    } catch (error) {
      setState({ busy: false, error });
    }
  }

  return h(
    'section',
    { class: 'empty' },
    h('p', null, isFirst ? 'You have no key yet.' : 'You have no active key: nothing can call the API as you.'),
    h('button', { type: 'button', class: 'primary', disabled: state.busy, onClick: () => void run() }, 'Mint a key'),
    state.error !== undefined && h(Failure, { error: state.error }),
  );
}
