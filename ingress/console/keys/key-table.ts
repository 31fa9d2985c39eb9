import { h } from 'preact';
import type { AccountKey } from '../../api/response-schemas.ts';
import { formatTime } from '../page/format.ts';
import { Table } from '../page/table.ts';

type Props = {
  keys: readonly AccountKey[];
  /** Omitted for the keys of another account. */
  ask?: (what: 'rotate' | 'revoke', key: AccountKey) => void;
};

const states = { active: 'active', rotated: 'rotated', revoked: 'revoked', expired: 'expired' };

/** All stored keys of an account, masked, newest first. */
export function KeyTable({ keys, ask }: Props) {
  return h(Table<AccountKey>, {
    caption: 'Keys, newest first',
    rows: keys,
    rowKey: ({ id }) => id,
    columns: [
      { title: 'Key', cell: ({ key }) => h('code', null, key) },
      { title: 'Name', cell: ({ name }) => name ?? '–' },
      { title: 'State', cell: ({ state }) => h('span', { class: `state ${state}` }, states[state]) },
      { title: 'Plan', cell: ({ plan }) => plan },
      { title: 'Created', cell: ({ createdAt }) => formatTime(createdAt) },
      { title: 'Last used', cell: ({ lastUsedAt }) => (lastUsedAt === undefined ? 'never' : formatTime(lastUsedAt)) },
      { title: 'Ended', cell: ({ endedAt }) => (endedAt === undefined ? '–' : formatTime(endedAt)) },
      ...(ask === undefined ? [] : [{ title: 'Change', cell: (key: AccountKey) => changesOf(key, ask) }]),
    ],
  });
}

function changesOf(key: AccountKey, ask: NonNullable<Props['ask']>) {
  if (key.state !== 'active') return '–';
  return h(
    'div',
    { class: 'actions tight' },
    h('button', { type: 'button', onClick: () => ask('rotate', key) }, 'Rotate'),
    h('button', { type: 'button', class: 'danger', onClick: () => ask('revoke', key) }, 'Revoke'),
  );
}
