import { h } from 'preact';
import type { AccountKey } from '../../api/response-schemas.ts';
import { StateBadge, type Tone } from '../controls/state-badge.ts';
import { Table } from '../controls/table.ts';
import { formatTime } from '../page/format.ts';

const tones: Record<AccountKey['state'], Tone> = {
  active: 'good',
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
      { title: 'Name', cell: ({ name }) => name ?? '–' },
      { title: 'State', cell: ({ state }) => h(StateBadge, { state, tone: tones[state] }) },
      { title: 'Created', cell: ({ createdAt }) => formatTime(createdAt) },
      { title: 'Last used', cell: ({ lastUsedAt }) => (lastUsedAt === undefined ? 'never' : formatTime(lastUsedAt)) },
      { title: 'End', cell: ({ endedAt }) => (endedAt === undefined ? '–' : formatTime(endedAt)) },
      ...(revoke === undefined
        ? []
        : [{ title: 'Change', cell: (key: AccountKey) => h(Revoke, { shown: key, revoke }) }]),
    ],
  });
}

/** A key that was rotated works until its grace is over. */
function Revoke({ shown, revoke }: { shown: AccountKey; revoke: (key: AccountKey) => void }) {
  const { state, endedAt, key } = shown;
  const isUsable =
    state === 'active' || (state === 'rotated' && endedAt !== undefined && Date.parse(endedAt) > Date.now());
  if (!isUsable) return null;
  const label = `Revoke ${key}`;
  return h('button', { type: 'button', class: 'danger', 'aria-label': label, onClick: () => revoke(shown) }, 'Revoke');
}
