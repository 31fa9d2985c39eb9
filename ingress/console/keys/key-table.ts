import { h } from 'preact';
import type { DeveloperKey } from '../../api/response-schemas.ts';
import { formatTime } from '../page/format.ts';
import { Table } from '../page/table.ts';

type Props = {
  keys: readonly DeveloperKey[];
  /** Omitted for the keys of another account. */
  ask?: (what: 'rotate' | 'revoke', key: DeveloperKey) => void;
};

const states = { active: 'active', rotated: 'rotated', revoked: 'revoked' };

/** All stored keys of an account, masked, newest first. */
export function KeyTable({ keys, ask }: Props) {
  return h(Table<DeveloperKey>, {
    caption: 'Keys, newest first',
    rows: keys,
    rowKey: ({ id }) => id,
    columns: [
      { title: 'Key', cell: ({ key }) => h('code', null, key) },
      { title: 'State', cell: ({ state }) => h('span', { class: `state ${state}` }, states[state]) },
      { title: 'Plan', cell: ({ plan }) => plan },
      { title: 'Created', cell: ({ createdAt }) => formatTime(createdAt) },
      { title: 'Last used', cell: ({ lastUsedAt }) => (lastUsedAt === undefined ? 'never' : formatTime(lastUsedAt)) },
      { title: 'Ended', cell: ({ endedAt }) => (endedAt === undefined ? '–' : formatTime(endedAt)) },
      ...(ask === undefined ? [] : [{ title: 'Change', cell: (key: DeveloperKey) => changesOf(key, ask) }]),
    ],
  });
}

function changesOf(key: DeveloperKey, ask: NonNullable<Props['ask']>) {
  if (key.state !== 'active') return '–';
  return h(
    'div',
    { class: 'actions tight' },
    h('button', { type: 'button', onClick: () => ask('rotate', key) }, 'Rotate'),
    h('button', { type: 'button', class: 'danger', onClick: () => ask('revoke', key) }, 'Revoke'),
  );
}
