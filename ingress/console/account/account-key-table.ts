import { h } from 'preact';
import type { AccountKey } from '../../api/response-schemas.ts';
import { StateBadge, type Tone } from '../controls/state-badge.ts';
import { Table } from '../controls/table.ts';
import type { ShownState } from '../keys/key-state.ts';
import { formatTime } from '../page/format.ts';

const tones: Record<ShownState, Tone> = {
  active: 'good',
  'in grace': 'warning',
  rotated: 'neutral',
  expired: 'warning',
  revoked: 'bad',
};

type Props = { keys: readonly AccountKey[]; revoke?: (key: AccountKey) => void };

/** The stored keys of an account, masked: those of the developer key routes, then further keys. */
export function AccountKeyTable({ keys, revoke }: Props) {
  return h(Table<AccountKey>, {
    caption: 'Keys of the account',
    rows: keys,
    rowKey: ({ id }) => id,
    columns: [
      { title: 'Key', cell: ({ key }) => h('code', null, key) },
      { title: 'Name', cell: ({ name }) => name ?? 'default' },
      { title: 'State', cell: (key) => h(StateBadge, { state: shownState(key), tone: tones[shownState(key)] }) },
      { title: 'Created', cell: ({ createdAt }) => formatTime(createdAt) },
      { title: 'Last used', cell: ({ lastUsedAt }) => (lastUsedAt === undefined ? 'never' : formatTime(lastUsedAt)) },
      { title: 'Ends or ended', cell: ({ endedAt }) => (endedAt === undefined ? '–' : formatTime(endedAt)) },
      ...(revoke === undefined
        ? []
        : [{ title: 'Change', cell: (key: AccountKey) => h(Revoke, { shown: key, revoke }) }]),
    ],
  });
}

/** A key that was rotated works until its grace is over. */
function shownState({ state, endedAt }: AccountKey): ShownState {
  const isInGrace = state === 'rotated' && endedAt !== undefined && Date.parse(endedAt) > Date.now();
  return isInGrace ? 'in grace' : state;
}

function Revoke({ shown, revoke }: { shown: AccountKey; revoke: (key: AccountKey) => void }) {
  if (!['active', 'in grace'].includes(shownState(shown))) return null;
  const label = `Revoke ${shown.key}`;
  return h('button', { type: 'button', class: 'danger', 'aria-label': label, onClick: () => revoke(shown) }, 'Revoke');
}
