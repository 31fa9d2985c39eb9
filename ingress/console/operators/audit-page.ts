import { type ComponentChildren, h } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { AuditRecord } from '../../routes/audit.ts';
import type { Api } from '../api/api.ts';
import { type NewestItems, useNewest } from '../api/use-loaded.ts';
import { type AuditFilter, auditLink, foundLink } from '../page/console-route.ts';
import { LabelledInput } from '../page/fields.ts';
import { formatCount, formatTime } from '../page/format.ts';
import { AccountLink, DisplayName, ShortId } from '../page/identifiers.ts';
import { NewestView } from '../page/loaded-view.ts';
import { type Column, Table } from '../page/table.ts';
import { accountName } from './accounts-page.ts';

/** Changes of settings and what operators have ended, filtered by account and by who did it. */
export function AuditPage({ api, filter }: { api: Api; filter: AuditFilter }) {
  const [asked, setAsked] = useState(0);
  const show = (wanted: AuditFilter) => {
    if (auditLink(wanted) === auditLink(filter)) setAsked(asked + 1);
    else window.location.hash = auditLink(wanted); // so that Back from an account returns here
  };
  return [
    h('h1', { tabIndex: -1 }, 'Audit trail'),
    h(FilterForm, { shown: filter, show }),
    h(Records, { key: `${asked} ${auditLink(filter)}`, api, filter }),
  ];
}

function Records({ api, filter }: { api: Api; filter: AuditFilter }) {
  const records = useNewest<AuditRecord>(api, '/admin/audit', { filter });
  return h(AuditTrail, { records, showsAccounts: true });
}

const nameInput = { maxLength: 300 };

function FilterForm({ shown, show }: { shown: AuditFilter; show: (filter: AuditFilter) => void }) {
  const [account, setAccount] = useState('');
  const [actor, setActor] = useState('');
  useEffect(() => {
    setAccount(shown.account ?? '');
    setActor(shown.actor ?? '');
  }, [shown.account, shown.actor]);

  function submit(event: Event): void {
    event.preventDefault();
    const wanted = { account: accountName(account), actor: accountName(actor) };
    show({ ...(wanted.account && { account: wanted.account }), ...(wanted.actor && { actor: wanted.actor }) });
  }

  return h(
    'form',
    { class: 'fields', role: 'search', onSubmit: submit },
    h(LabelledInput, {
      label: 'Account',
      type: 'search',
      value: account,
      change: setAccount,
      input: { ...nameInput, placeholder: 'user:alice' },
    }),
    h(LabelledInput, {
      label: 'Changed by',
      type: 'search',
      value: actor,
      change: setActor,
      input: { ...nameInput, placeholder: 'user:olga' },
    }),
    h('button', { type: 'submit', class: 'primary' }, 'Show'),
  );
}

type Props = {
  records: NewestItems<AuditRecord>;
  /** Set if the records are of more than one account. */
  showsAccounts?: boolean;
};

/** What was changed and ended, newest first, with a button for more. */
export function AuditTrail({ records, showsAccounts = false }: Props) {
  return h(NewestView<AuditRecord>, {
    newest: records,
    what: 'the audit trail',
    empty: 'There are no changes.',
    children: (rows) =>
      h(Table<AuditRecord>, {
        caption: 'Changes, newest first',
        rows,
        rowKey: ({ id }) => id,
        columns: showsAccounts ? [when, who, account, ...rest] : [when, who, ...rest],
      }),
  });
}

const when: Column<AuditRecord> = { title: 'When', cell: ({ at }) => formatTime(at) };
const who: Column<AuditRecord> = {
  title: 'Who',
  cell: ({ actor, actor_name: name }) =>
    h('span', { class: 'account' }, actor ?? 'the service', h(DisplayName, { name })),
};
const account: Column<AuditRecord> = {
  title: 'Account',
  cell: ({ account, account_name: name }) => (account === null ? '–' : h(AccountLink, { account, name })),
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
    overageTokensMax,
    topUp,
    codeRedeemed,
    codesCreated,
    codeRevoked,
    planFile,
    keyMinted,
    keyRotated,
    keyChanged,
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
    overageTokensMax !== undefined &&
      `overage at most ${overageTokensMax === null ? 'that of the plan' : `${formatCount(overageTokensMax)} tokens`}`,
    topUp && `topped up ${formatCount(topUp.tokens)} tokens (${topUp.id})`,
    codeRedeemed?.note && `note of the code: ${codeRedeemed.note}`,
    codesCreated &&
      `${formatCount(codesCreated.count)} top-up codes of ${formatCount(codesCreated.tokens)} tokens created`,
    codeRevoked && `top-up code revoked (${codeRevoked.id})`,
    planFile && `plan file ${planFile.to} in force`,
    keyMinted && ['key created: ', h(ShortId, { id: keyMinted, what: 'key ID' })],
    keyRotated && ['key rotated: ', h(ShortId, { id: keyRotated.from, what: 'key ID' })],
    keyChanged && ['key changed: ', h(ShortId, { id: keyChanged, what: 'key ID' })],
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
