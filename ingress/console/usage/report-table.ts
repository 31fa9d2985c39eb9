import { type ComponentChildren, h } from 'preact';
import { useState } from 'preact/hooks';
import type { GroupName } from '../../usage/usage-query.ts';
import type { UsageReport, UsageRow } from '../../usage/usage-report.ts';
import { formatCost, formatCount, formatDay, formatHour, formatMs } from '../page/format.ts';
import { AccountLink } from '../page/identifiers.ts';
import { type Column, Table } from '../page/table.ts';
import { groupLabels } from './report-filters.ts';

const rowsShownMax = 1_000;
const rowsAtFirst = 25;

type Props = {
  report: UsageReport;
  /** Names of keys by their ids, as far as they are known. */
  keyNames: ReadonlyMap<string, string>;
  /** Whether these are only the rows with the most charged tokens. */
  isTop: boolean;
};

/** The rows of a report. Columns that are 0 in all of them are left out at first. */
export function ReportTable({ report: { groupBy, currency, data }, keyNames, isTop }: Props) {
  const [hasAll, setAll] = useState(false);
  const rows = data.slice(0, rowsShownMax);
  const by = groupBy.map((name) => (name === 'day' ? 'day (UTC)' : groupLabels[name])).join(', ');
  const isCut = rows.length < data.length;
  const isOfHours = rows.some(({ errors }) => errors !== undefined);
  const columns = measuredColumns({ currency, isOfHours });
  // With further groups there is no room for the first tokens.
  const fitting = groupBy.length > 1 ? columns.filter((column) => column !== firstTokenColumn) : columns;
  const used = fitting.filter(({ isUsed }) => rows.some(isUsed));
  return [
    isCut &&
      h(
        'p',
        { class: 'notice' },
        `These are the first ${formatCount(rows.length)} of ${formatCount(data.length)} rows. The export has all.`,
      ),
    h(Table<UsageRow>, {
      caption: `By ${by}${isTop ? '; most tokens charged first' : ''}`,
      rows,
      rowKey: (row) => JSON.stringify(groupBy.map((name) => row[name])),
      rowsAtFirst,
      columns: [
        ...groupBy.map((name, index) => ({
          title: titles[name],
          phone: index === 0 ? ('first' as const) : ('second' as const),
          cell: (row: UsageRow) => groupCell(name, row, keyNames),
          sortBy: (row: UsageRow) => row[name] ?? undefined,
        })),
        ...(hasAll ? columns : used),
      ],
    }),
    (hasAll || used.length < columns.length) &&
      h(
        'button',
        { type: 'button', 'aria-pressed': hasAll, onClick: () => setAll(!hasAll) },
        hasAll ? 'Show used columns only' : 'Show all columns',
      ),
  ];
}

const titles = {
  account: 'Account',
  day: 'Day',
  hour: 'Hour',
  model: 'Model',
  key: 'Key',
  endpoint: 'Endpoint',
} as const satisfies Record<GroupName, string>;

type MeasuredColumn = Column<UsageRow> & { isUsed: (row: UsageRow) => boolean };

/** Costs are right after the tokens that they are of. */
function measuredColumns({ currency, isOfHours }: { currency: string | undefined; isOfHours: boolean }) {
  const count = (title: string, name: CountName): MeasuredColumn => ({
    title,
    phone: 'none',
    holds: 'number',
    cell: (row) => formatCount(row[name] ?? 0),
    sortBy: (row) => row[name] ?? 0,
    isUsed: (row) => (row[name] ?? 0) > 0,
  });
  // Those of hours have less room for the parts of the tokens.
  const part = (title: string, name: CountName) =>
    isOfHours ? { ...count(title, name), isUsed: () => false } : count(title, name);
  return [
    { ...count('Requests', 'requests'), isUsed: () => true },
    chargedColumn,
    ...(currency === undefined ? [] : [costColumn(currency)]),
    count('Failed', 'failed'),
    ...(isOfHours ? [count('Refused', 'refused')] : []),
    count('Cancelled', 'cancelled'),
    part('Prompt tokens', 'promptTokens'),
    part('Cached tokens', 'cachedTokens'),
    part('Completion tokens', 'completionTokens'),
    count('Overage tokens', 'overageTokens'),
    ...(isOfHours ? [firstTokenColumn, errorsColumn] : []),
  ];
}

type CountName =
  | 'requests'
  | 'failed'
  | 'refused'
  | 'cancelled'
  | 'promptTokens'
  | 'cachedTokens'
  | 'completionTokens'
  | 'chargedTokens'
  | 'overageTokens';

const chargedColumn: MeasuredColumn = {
  title: 'Charged tokens',
  phone: 'second',
  holds: 'number',
  cell: ({ chargedTokens }) => [formatCount(chargedTokens), h('span', { key: 'unit', class: 'phone-unit' }, ' tokens')],
  sortBy: ({ chargedTokens }) => chargedTokens,
  isUsed: () => true,
};

function costColumn(currency: string): MeasuredColumn {
  return {
    title: 'Cost',
    phone: 'end',
    holds: 'number',
    // Without any price it is unknown, not 0.
    cell: ({ cost = '0', unpricedTokens = 0 }) =>
      cost === '0' && unpricedTokens > 0 ? '–' : h(Cost, { cost, currency }),
    sortBy: ({ cost = '0' }) => Number(cost),
    isUsed: () => true,
  };
}

/** Rounded; exact on hover. */
export function Cost({ cost, currency }: { cost: string; currency: string }) {
  return h('span', { title: `${cost} ${currency}` }, formatCost(cost, currency));
}

const errorsColumn: MeasuredColumn = {
  title: 'Errors',
  phone: 'none',
  holds: 'text',
  cell: ({ errors = {} }) =>
    Object.entries(errors)
      .map(([code, count]) => `${formatCount(count)} × ${code}`)
      .join(', '),
  isUsed: ({ errors = {} }) => Object.keys(errors).length > 0,
};

const firstTokenColumn: MeasuredColumn = {
  title: 'First token, p50 / p95',
  phone: 'none',
  holds: 'number',
  cell: ({ firstTokenMs: ms }) => (ms == null ? '–' : `${formatMs(ms.p50)} / ${formatMs(ms.p95)}`),
  sortBy: ({ firstTokenMs: ms }) => ms?.p95,
  isUsed: ({ firstTokenMs: ms }) => ms != null,
};

/** Refused requests are of no model and no endpoint. */
const noValue = '-';

function groupCell(name: GroupName, row: UsageRow, keyNames: ReadonlyMap<string, string>): ComponentChildren {
  const value = row[name] ?? '';
  if (name === 'day') return formatDay(value);
  if (name === 'hour') return formatHour(Date.parse(value) / 1_000);
  if (name === 'account') return h(AccountLink, { account: value, name: row.name });
  if (name !== 'key') return value === noValue ? 'refused requests' : value;
  return keyWords(value, keyNames);
}

/** A key by its name; by its id if that is not known. */
function keyWords(id: string, keyNames: ReadonlyMap<string, string>): ComponentChildren {
  if (id === '') return 'sign-in token';
  const name = keyNames.get(id);
  return name === undefined ? h('code', null, id) : h('span', { title: id }, name);
}
