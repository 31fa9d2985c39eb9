import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { TopOrder } from '../../usage/usage-query.ts';
import type { UsageReport, UsageRow } from '../../usage/usage-report.ts';
import type { Api } from '../api/api.ts';
import { useLoaded, usePolled } from '../api/use-loaded.ts';
import { hourText } from '../charts/steps.ts';
import { Bar } from '../fleet/backend-matrix.ts';
import { Choice } from '../page/fields.ts';
import { formatCost, formatCount, formatHour, formatShort } from '../page/format.ts';
import { AccountLink } from '../page/identifiers.ts';
import { LoadedView, Panel } from '../page/loaded-view.ts';
import { type Column, Table } from '../page/table.ts';
import { firstHour, type RangeName } from './service-numbers.ts';

const rowsShown = 6;
const everyMs = 60_000;

const titles = { cost: 'Cost', charged: 'Tokens', failed: 'Errors' } as const;
const orders: Readonly<Record<TopOrder, string>> = { cost: 'cost', charged: 'tokens', failed: 'errors' };

/** The accounts with the most cost, tokens or errors. */
export function TopAccounts({ api, range }: { api: Api; range: RangeName }) {
  const [order, setOrder] = useState<TopOrder>('cost');
  const now = Date.now() / 1_000;
  const start = firstHour(range, now);
  const query = `group_by=account&order=${order}&limit=${rowsShown}&start=${hourText(start)}&end=${hourText(now)}`;
  const loaded = useLoaded((signal) => api.call<UsageReport>(`/admin/usage?${query}`, { signal }), [query]);
  usePolled(loaded, { everyMs });
  return h(
    Panel,
    { title: 'Top accounts', more: { href: '#all-usage', link: 'Usage' } },
    h(Choice<TopOrder>, { legend: 'By', options: orders, chosen: order, choose: setOrder }),
    h(LoadedView<UsageReport>, {
      loaded,
      what: 'the accounts',
      lines: 7,
      children: (report) => h(TopTable, { report, order, start }),
    }),
  );
}

function TopTable({ report, order, start }: { report: UsageReport; order: TopOrder; start: number }) {
  const { currency } = report;
  const amountOf = amounts[order];
  const rows = report.data.filter((row) => amountOf(row) > 0);
  const since = `since ${formatHour(start)}`;
  if (order === 'cost' && currency === undefined)
    return h('p', { class: 'quiet' }, 'The plan file has no prices. Choose tokens.');
  if (rows.length === 0)
    return h('p', { class: 'quiet' }, order === 'failed' ? `No errors ${since}.` : `Nothing ${since}.`);
  const most = Math.max(...rows.map(amountOf));
  const columns: Column<UsageRow>[] = [
    {
      title: 'Account',
      cell: ({ account = '', name }) => h(AccountLink, { account, name }),
      holds: 'text',
      phone: 'first',
    },
    { title: titles[order], cell: (row) => shownAmount(row, order, currency), holds: 'number', phone: 'end' },
    {
      title: 'Share',
      cell: (row) => h('div', { class: 'share' }, h(Bar, { part: amountOf(row), of: most, isLimit: false })),
      phone: 'none',
    },
  ];
  return [
    h(Table<UsageRow>, {
      caption: `Accounts with the most ${orders[order]}, ${since}`,
      rows,
      rowKey: ({ account = '' }) => account,
      columns,
    }),
    h('p', { class: 'quiet' }, `Since ${formatHour(start)}.`),
  ];
}

const amounts: Readonly<Record<TopOrder, (row: UsageRow) => number>> = {
  cost: ({ cost = '0' }) => Number(cost),
  charged: ({ chargedTokens }) => chargedTokens,
  failed: ({ failed }) => failed,
};

function shownAmount(row: UsageRow, order: TopOrder, currency = ''): string {
  if (order === 'cost') return formatCost(row.cost ?? '0', currency);
  return order === 'charged' ? formatShort(row.chargedTokens) : formatCount(row.failed);
}
