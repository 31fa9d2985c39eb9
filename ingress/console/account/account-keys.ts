import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { AccountKey } from '../../api/response-schemas.ts';
import type { ShownKey } from '../keys/key-state.ts';
import { KeyTable } from '../keys/key-table.ts';
import { Panel } from '../panels/panel.ts';
import { RevokeKeyDialog } from './end-dialogs.ts';

type Props = {
  account: string;
  keys: readonly AccountKey[];
  onAsk: () => void;
  revoke: (key: ShownKey, reason: string) => Promise<void>;
};

/** The keys of an account. Those that can be used can be revoked, except that of a device, which would get it again. */
export function AccountKeys({ account, keys, onAsk, revoke }: Props) {
  const [asked, ask] = useState<ShownKey>();
  const open = (_: unknown, key: ShownKey) => {
    onAsk();
    ask(key);
  };
  const shown = keys.map((key) => shownKeyOf(key, Date.now()));
  const allowed = account.startsWith('device:') ? [] : (['revoke'] as const);
  return h(
    Panel,
    { title: 'Keys' },
    keys.length === 0
      ? h('p', { class: 'quiet' }, 'It has no keys.')
      : h(KeyTable<ShownKey>, { caption: 'Keys of the account', keys: shown, allowed, ask: open }),
    asked !== undefined &&
      h(RevokeKeyDialog, {
        ...{ account, shown: asked },
        run: (reason) => revoke(asked, reason),
        close: () => ask(undefined),
      }),
  );
}

/** A key of an account as its owner sees it. Only a key in its grace has an end that has not come, and only further keys have a name. */
export function shownKeyOf({ name, createdAt, endedAt, lastUsedAt, ...key }: AccountKey, now: number): ShownKey {
  const end = secondsOf(endedAt);
  const hasEnded = end !== null && end * 1000 <= now;
  return {
    ...{ ...key, name: name ?? 'default', default: name === undefined && key.state === 'active' },
    ...{ expires_at: null, valid_until: hasEnded ? null : end, ended_at: hasEnded ? end : null },
    ...{ created_at: secondsOf(createdAt) ?? 0, last_used_at: secondsOf(lastUsedAt) },
  };
}

function secondsOf(time: string | undefined): number | null {
  return time === undefined ? null : Math.floor(Date.parse(time) / 1000);
}
