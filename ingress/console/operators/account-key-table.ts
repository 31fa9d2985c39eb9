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

/** The stored keys of an account, masked: those of the developer key routes, then further keys. */
export function AccountKeyTable({ keys }: { keys: readonly AccountKey[] }) {
  return h(Table<AccountKey>, {
    caption: 'Keys of the account',
    rows: keys,
    rowKey: ({ id }) => id,
    columns: [
      { title: 'Key', cell: ({ key }) => h('code', null, key) },
      { title: 'Name', cell: ({ name }) => name ?? '–' },
      { title: 'State', cell: ({ state }) => h(StateBadge, { state, tone: tones[state] }) },
      { title: 'Plan', cell: ({ plan }) => plan },
      { title: 'Created', cell: ({ createdAt }) => formatTime(createdAt) },
      { title: 'Last used', cell: ({ lastUsedAt }) => (lastUsedAt === undefined ? 'never' : formatTime(lastUsedAt)) },
      { title: 'End', cell: ({ endedAt }) => (endedAt === undefined ? '–' : formatTime(endedAt)) },
    ],
  });
}
