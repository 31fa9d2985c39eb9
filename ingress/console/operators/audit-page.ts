import { h } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { AuditRecord } from '../../routes/audit.ts';
import type { Api } from '../api/api.ts';
import { type NewestItems, useNewest } from '../api/use-loaded.ts';
import { DownloadButton } from '../page/actions.ts';
import { type AuditFilter, auditLink } from '../page/console-route.ts';
import { LabelledInput, Select } from '../page/fields.ts';
import { formatSecond, formatTime } from '../page/format.ts';
import { AccountLink, DisplayName } from '../page/identifiers.ts';
import { NewestView } from '../page/loaded-view.ts';
import { type Column, Table } from '../page/table.ts';
import { accountName } from './accounts-page.ts';
import { auditKinds, auditQuery, ChangeWords } from './audit-words.ts';

/** What was changed, of every kind, filtered by what it is about, whose it is, who did it, and when. */
export function AuditPage({ api, filter }: { api: Api; filter: AuditFilter }) {
  const [asked, setAsked] = useState(0);
  const show = (wanted: AuditFilter) => {
    if (auditLink(wanted) === auditLink(filter)) setAsked(asked + 1);
    else window.location.hash = auditLink(wanted); // so that Back from an account returns here
  };
  return [
    h('h1', { tabIndex: -1 }, 'Audit trail'),
    h(FilterForm, { shown: filter, show }),
    h(
      'div',
      { class: 'actions' },
      h(DownloadButton, {
        key: auditLink(filter),
        api,
        path: `/admin/audit?${new URLSearchParams({ ...auditQuery(filter), format: 'csv' })}`,
        name: 'audit-trail.csv',
        label: 'Export as CSV',
      }),
    ),
    h(Records, { key: `${asked} ${auditLink(filter)}`, api, filter }),
  ];
}

function Records({ api, filter }: { api: Api; filter: AuditFilter }) {
  const records = useNewest<AuditRecord>(api, '/admin/audit', { filter: auditQuery(filter) });
  return h(AuditTrail, { records, showsAccounts: true });
}

const nameInput = { maxLength: 300 };
const kindOptions = new Map<string, string>([['', 'everything'], ...Object.entries(auditKinds)]);

function FilterForm({ shown, show }: { shown: AuditFilter; show: (filter: AuditFilter) => void }) {
  const [filter, setFilter] = useState<AuditFilter>(shown);
  useEffect(() => setFilter(shown), [auditLink(shown)]);
  const { kind = '', account = '', actor = '', start = '', end = '' } = filter;
  const set = (name: keyof AuditFilter) => (value: string) => setFilter({ ...filter, [name]: value });

  function submit(event: Event): void {
    event.preventDefault();
    const wanted = { kind, account: accountName(account), actor: accountName(actor), start, end };
    show(Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== '')));
  }

  return h(
    'form',
    { class: 'fields narrow', role: 'search', onSubmit: submit },
    h(Select<string>, { label: 'About', options: kindOptions, value: kind, change: set('kind') }),
    h(LabelledInput, {
      label: 'Account',
      type: 'search',
      value: account,
      change: set('account'),
      input: { ...nameInput, placeholder: 'user:alice' },
    }),
    h(LabelledInput, {
      label: 'Changed by',
      type: 'search',
      value: actor,
      change: set('actor'),
      input: { ...nameInput, placeholder: 'user:olga' },
    }),
    h(LabelledInput, { label: 'First day (UTC)', type: 'date', value: start, change: set('start') }),
    h(LabelledInput, { label: 'Last day (UTC)', type: 'date', value: end, change: set('end') }),
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
    lines: 10,
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

const when: Column<AuditRecord> = {
  title: 'When',
  cell: ({ at }) => h('span', { title: formatSecond(at) }, formatTime(at)),
  phone: 'end',
};
const who: Column<AuditRecord> = {
  title: 'Who',
  cell: ({ actor, actor_name: name }) =>
    h('span', { class: 'account' }, actor ?? 'the service', h(DisplayName, { name })),
  holds: 'text',
  phone: 'first',
};
const account: Column<AuditRecord> = {
  title: 'Account',
  cell: ({ account, account_name: name }) => (account === null ? '–' : h(AccountLink, { account, name })),
  holds: 'text',
  phone: 'second',
};
const rest: readonly Column<AuditRecord>[] = [
  { title: 'What', cell: ({ change }) => h(ChangeWords, { change }), holds: 'text', phone: 'second' },
  { title: 'Reason', cell: ({ reason }) => reason ?? '–', holds: 'text', phone: 'second' },
  { title: 'Address', cell: ({ address }) => address ?? '–', phone: 'none' },
];
