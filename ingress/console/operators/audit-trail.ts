import { h } from 'preact';
import type { AccountChange } from '../../openapi/answers.ts';
import { formatCount, formatTime } from '../page/format.ts';
import { Table } from '../page/table.ts';

/** What was changed, by whom and when; the last 200, newest first. */
export function AuditTrail({ changes }: { changes: readonly AccountChange[] }) {
  if (changes.length === 0) return h('p', { class: 'empty' }, 'Nothing has been changed yet.');
  return h(Table<{ change: AccountChange; index: number }>, {
    caption: 'Changes, newest first',
    rows: changes.map((change, index) => ({ change, index })),
    rowKey: ({ change: { at }, index }) => `${at} ${changes.length - index}`,
    columns: [
      { title: 'When', cell: ({ change: { at } }) => formatTime(at) },
      { title: 'Who', cell: ({ change: { by } }) => h('span', { class: 'account' }, by) },
      { title: 'What', cell: ({ change }) => wordsOf(change).join('; '), holds: 'text' },
    ],
  });
}

function wordsOf(change: AccountChange): string[] {
  const { keyMinted, keyRotated, keyRevoked, plan, suspended, overageEnabled, topUp } = change;
  return [
    keyMinted && `minted ${keyMinted}`,
    keyRotated && `rotated ${keyRotated.from} to ${keyRotated.to}`,
    keyRevoked && `revoked ${keyRevoked}`,
    plan && `plan ${plan.from} to ${plan.to}`,
    suspended !== undefined && (suspended ? 'suspended' : 'let go on'),
    overageEnabled !== undefined && `overage ${overageEnabled ? 'on' : 'off'}`,
    topUp && `topped up ${formatCount(topUp.tokens)} tokens (${topUp.id})`,
  ].filter((words) => typeof words === 'string');
}
