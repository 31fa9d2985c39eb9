import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { ShownKey } from '../../routes/present-key.ts';
import { KeyTable } from '../keys/key-table.ts';
import { Panel } from '../panels/panel.ts';
import { RevokeKeyDialog } from './end-dialogs.ts';

type Props = {
  account: string;
  keys: readonly ShownKey[];
  onAsk: () => void;
  revoke: (key: ShownKey, reason: string) => Promise<void>;
};

/** The keys of an account. Those that have not ended can be revoked, except that of a device, which would get it again. */
export function AccountKeys({ account, keys, onAsk, revoke }: Props) {
  const [asked, ask] = useState<ShownKey>();
  const open = (_: unknown, key: ShownKey) => {
    onAsk();
    ask(key);
  };
  const allowed = account.startsWith('device:') ? [] : (['revoke'] as const);
  return h(
    Panel,
    { title: 'Keys' },
    keys.length === 0
      ? h('p', { class: 'quiet' }, 'It has no keys.')
      : h(KeyTable<ShownKey>, { caption: 'Keys of the account', keys, allowed, ask: open }),
    asked !== undefined &&
      h(RevokeKeyDialog, {
        account,
        shown: asked,
        run: (reason) => revoke(asked, reason),
        close: () => ask(undefined),
      }),
  );
}
