import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { AccountSummary } from '../../routes/accounts.ts';
import type { Api } from '../api/api.ts';
import { useLoaded } from '../api/use-loaded.ts';
import { accountLink, searchLink } from '../page/console-route.ts';
import { LabelledInput, Select } from '../page/fields.ts';
import { formatTime } from '../page/format.ts';
import { StateBadge } from '../page/icons.ts';
import { AccountLink } from '../page/identifiers.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { type Column, Table } from '../page/table.ts';

type Page = { data: AccountSummary[]; has_more: boolean };

const pageSize = 50;

/** Finds an account by the start of its name, or a device by its id. */
export function AccountsPage({ api, prefix }: { api: Api; prefix: string }) {
  const [after, setAfter] = useState<string>();
  const query = new URLSearchParams({ limit: String(pageSize), ...(prefix && { prefix }), ...(after && { after }) });
  const loaded = useLoaded((signal) => api.call<Page>(`/admin/accounts?${query}`, { signal }), [query.toString()]);
  const search = (wanted: string) => {
    setAfter(undefined);
    if (wanted === prefix) loaded.reload();
    else window.location.hash = searchLink(wanted); // so that Back from an account returns here
  };
  return [
    h('h1', { tabIndex: -1 }, 'Accounts'),
    h(SearchForm, { shown: prefix, search }),
    h(LoadedView<Page>, {
      loaded,
      what: 'the accounts',
      lines: 12,
      children: ({ data, has_more }) => [
        data.length === 0
          ? h(
              'p',
              { class: 'empty' },
              prefix === '' ? 'There are no accounts.' : `No account name starts with "${prefix}".`,
            )
          : h(AccountTable, { accounts: data }),
        h(
          'div',
          { class: 'actions' },
          after !== undefined && h('button', { type: 'button', onClick: () => setAfter(undefined) }, 'First page'),
          has_more &&
            h('button', { type: 'button', onClick: () => setAfter(data.at(-1)?.account) }, `Next ${pageSize}`),
        ),
      ],
    }),
  ];
}

type FindKind = 'account' | 'device';
const findKinds = new Map<FindKind, string>([
  ['account', 'start of the account name'],
  ['device', 'device ID'],
]);

function SearchForm({ shown, search }: { shown: string; search: (prefix: string) => void }) {
  const [kind, setKind] = useState<FindKind>('account');
  const [text, setText] = useState(shown);

  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    const wanted = text.trim();
    if (kind === 'device' && wanted !== '') window.location.hash = accountLink(await deviceAccount(wanted));
    else search(accountName(wanted));
  }

  return h(
    'form',
    { class: 'fields', role: 'search', onSubmit: (event: Event) => void submit(event) },
    h(Select<FindKind>, { label: 'Find by', options: findKinds, value: kind, change: setKind }),
    h(LabelledInput, {
      label: kind === 'account' ? 'Account' : 'Device ID',
      type: 'search',
      value: text,
      change: setText,
      input: { placeholder: kind === 'account' ? 'user:alice' : 'the device ID that the app sends' },
    }),
    h('button', { type: 'submit', class: 'primary' }, 'Find'),
  );
}

function AccountTable({ accounts }: { accounts: readonly AccountSummary[] }) {
  return h(Table<AccountSummary>, {
    caption: 'Accounts and devices',
    rows: accounts,
    rowKey: ({ account }) => account,
    columns: [
      {
        title: 'Account',
        cell: ({ account, name }) => h(AccountLink, { account, name }),
        holds: 'text',
        phone: 'first',
      },
      { title: 'Plan', cell: ({ plan }) => plan, phone: 'second' },
      {
        title: 'State',
        cell: ({ suspended }) =>
          h(StateBadge, suspended ? { state: 'suspended', tone: 'bad' } : { state: 'active', tone: 'good' }),
        phone: 'end',
      },
      ...(accounts.some(({ overageEnabled }) => overageEnabled) ? [overage] : []),
      { title: 'Created', cell: ({ createdAt }) => formatTime(createdAt), phone: 'second' },
    ],
  });
}

const overage: Column<AccountSummary> = {
  title: 'Overage',
  cell: ({ overageEnabled }) => (overageEnabled ? 'on' : 'off'),
  phone: 'none',
};

/** The account that this text names: `alice` is `user:alice`; an empty text stays empty. */
export function accountName(text: string): string {
  const name = text.trim();
  return name === '' || /^(user|device):/.test(name) ? name : `user:${name}`;
}

/** The account of a device: the service stores only the SHA-256 of the device id. */
export async function deviceAccount(deviceId: string): Promise<string> {
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(deviceId));
  return `device:${[...new Uint8Array(hash)].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}
