import { type ComponentChildren, h } from 'preact';
import type { AuditRecord } from '../../routes/audit.ts';
import { AccountLink, DisplayName } from '../controls/account-link.ts';
import { ShortId } from '../controls/short-id.ts';
import { type Column, Table } from '../controls/table.ts';
import { formatCount, formatTime } from '../page/format.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { foundLink } from '../page/route.ts';
import type { NewestItems } from '../page/use-newest.ts';

type Props = {
  records: NewestItems<AuditRecord>;
  /** Set if the records are of more than one account. */
  showsAccounts?: boolean;
};

/** What was changed and ended, newest first, with a button for more. */
export function AuditTrail({ records, showsAccounts = false }: Props) {
  return h(LoadedView<NonNullable<typeof records.value>>, {
    loaded: records,
    what: 'the audit trail',
    children: ({ data, has_more }) => [
      data.length === 0
        ? h('p', { class: 'empty' }, 'There are no changes.')
        : h(Table<AuditRecord>, {
            caption: 'Changes, newest first',
            rows: data,
            rowKey: ({ id }) => id,
            columns: showsAccounts ? [when, who, account, ...rest] : [when, who, ...rest],
          }),
      has_more && h('button', { type: 'button', onClick: records.showMore }, 'Show more'),
    ],
  });
}

const when: Column<AuditRecord> = { title: 'When', cell: ({ at }) => formatTime(at) };
const who: Column<AuditRecord> = {
  title: 'Who',
  cell: ({ actor, actor_name: name }) => h('span', { class: 'account' }, actor, h(DisplayName, { name })),
};
const account: Column<AuditRecord> = {
  title: 'Account',
  cell: ({ account, account_name: name }) => h(AccountLink, { account, name }),
};
const rest: readonly Column<AuditRecord>[] = [
  { title: 'What', cell: ({ change }) => h(What, { change }), holds: 'text' },
  { title: 'Reason', cell: ({ reason }) => reason ?? '–', holds: 'text' },
  { title: 'Address', cell: ({ address }) => address ?? '–' },
];

function wordsOf(change: AuditRecord['change']): ComponentChildren[] {
  const {
    plan,
    suspended,
    overageEnabled,
    topUp,
    keyRevoked,
    batchCancelled,
    requestEnded,
    backendPaused,
    backendResumed,
    accountRemoved,
  } = change;
  return [
    plan && `plan ${plan.from} to ${plan.to}`,
    suspended !== undefined && (suspended ? 'suspended' : 'resumed'),
    overageEnabled !== undefined && `overage ${overageEnabled ? 'on' : 'off'}`,
    topUp && `topped up ${formatCount(topUp.tokens)} tokens (${topUp.id})`,
    keyRevoked && ['key revoked: ', h(ShortId, { id: keyRevoked, what: 'key ID' })],
    batchCancelled && [
      'batch cancelled: ',
      h(ShortId, { id: batchCancelled, what: 'batch ID', href: foundLink(batchCancelled) }),
    ],
    requestEnded && [
      'request ended: ',
      h(ShortId, { id: requestEnded, what: 'request ID', href: foundLink(requestEnded) }),
    ],
    backendPaused && `backend ${backendPaused.backend} paused for ${formatCount(backendPaused.minutes)} min`,
    backendResumed && `pause of backend ${backendResumed} ended`,
    accountRemoved && 'account removed',
  ].filter((words) => words !== undefined && words !== false);
}

/** A change is usually one thing. */
function What({ change }: Pick<AuditRecord, 'change'>) {
  return wordsOf(change).flatMap((words, index) => (index === 0 ? [words] : ['; ', words]));
}
