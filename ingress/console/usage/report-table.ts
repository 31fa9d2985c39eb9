import { type ComponentChildren, h } from 'preact';
import type { GroupName } from '../../usage/usage-query.ts';
import type { UsageReport, UsageRow } from '../../usage/usage-report.ts';
import { formatCost, formatCount, formatDay } from '../page/format.ts';
import { AccountLink } from '../page/identifiers.ts';
import { Table } from '../page/table.ts';
import { groupLabels } from './report-filters.ts';

const rowsShownMax = 1_000;

type Props = {
  report: UsageReport;
  /** Names of keys by their ids, as far as they are known. */
  keyNames: ReadonlyMap<string, string>;
  /** Whether these are only the rows with the most charged tokens. */
  isTop: boolean;
};

export function ReportTable({ report: { groupBy, currency, data }, keyNames, isTop }: Props) {
  const rows = data.slice(0, rowsShownMax);
  const by = groupBy.map((name) => (name === 'day' ? 'day (UTC)' : groupLabels[name])).join(', ');
  const order = isTop ? '; most tokens charged first' : '';
  const isCut = rows.length < data.length;
  return [
    isCut &&
      h(
        'p',
        { class: 'notice' },
        `These are the first ${formatCount(rows.length)} of ${formatCount(data.length)} rows. The export has all.`,
      ),
    h(Table<UsageRow>, {
      caption: `By ${by}${order}${currency === undefined ? '' : '; costs are rounded here and exact in the export'}`,
      rows,
      rowKey: (row) => JSON.stringify(groupBy.map((name) => row[name])),
      columns: [
        ...groupBy.map((name) => ({
          title: titles[name],
          cell: (row: UsageRow) => groupCell(name, row, keyNames),
          sortBy: (row: UsageRow) => row[name] ?? undefined,
        })),
        ...counts.map(([title, name]) => ({
          title,
          cell: (row: UsageRow) => formatCount(row[name]),
          sortBy: (row: UsageRow) => row[name],
          holds: 'number' as const,
        })),
        ...(currency === undefined
          ? []
          : [
              {
                title: 'Cost',
                // Without any price it is unknown, not 0.
                cell: ({ cost = '0', unpricedTokens = 0 }: UsageRow) =>
                  cost === '0' && unpricedTokens > 0 ? '–' : formatCost(cost, currency),
                sortBy: ({ cost = '0' }: UsageRow) => Number(cost),
                holds: 'number' as const,
              },
            ]),
      ],
    }),
  ];
}

const titles = {
  account: 'Account',
  day: 'Day',
  hour: 'Hour',
  model: 'Model',
  key: 'Key',
  endpoint: 'Endpoint',
} as const;

const counts = [
  ['Requests', 'requests'],
  ['Failed', 'failed'],
  ['Cancelled', 'cancelled'],
  ['Prompt tokens', 'promptTokens'],
  ['Cached tokens', 'cachedTokens'],
  ['Completion tokens', 'completionTokens'],
  ['Charged tokens', 'chargedTokens'],
  ['Overage tokens', 'overageTokens'],
] as const satisfies readonly (readonly [string, keyof UsageRow])[];

function groupCell(name: GroupName, row: UsageRow, keyNames: ReadonlyMap<string, string>): ComponentChildren {
  const value = row[name] ?? '';
  if (name === 'day') return formatDay(value);
  if (name === 'account') return h(AccountLink, { account: value, name: row.name });
  if (name !== 'key') return value;
  if (value === '') return 'sign-in token';
  const known = keyNames.get(value);
  return [known !== undefined && `${known} `, h('code', null, value)];
}
