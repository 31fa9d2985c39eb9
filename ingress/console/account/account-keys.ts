import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { AccountKey } from '../../api/response-schemas.ts';
import { Panel } from '../panels/panel.ts';
import { AccountKeyTable } from './account-key-table.ts';
import { RevokeKeyDialog } from './end-dialogs.ts';

type Props = {
  account: string;
  keys: readonly AccountKey[];
  onAsk: () => void;
  revoke: (key: AccountKey, reason: string) => Promise<void>;
};

/** The keys of an account. Those that can be used can be revoked, except that of a device, which would get it again. */
export function AccountKeys({ account, keys, onAsk, revoke }: Props) {
  const [asked, ask] = useState<AccountKey>();
  const open = (key: AccountKey) => {
    onAsk();
    ask(key);
  };
  return h(
    Panel,
    { title: 'Keys' },
    keys.length === 0
      ? h('p', { class: 'quiet' }, 'It has no keys.')
      : h(AccountKeyTable, { keys, ...(!account.startsWith('device:') && { revoke: open }) }),
    asked !== undefined &&
      h(RevokeKeyDialog, {
        ...{ account, shown: asked },
        run: (reason) => revoke(asked, reason),
        close: () => ask(undefined),
      }),
  );
}
