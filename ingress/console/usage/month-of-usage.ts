import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Usage, UsageDay } from '../../usage/usage-schemas.ts';
import { formatCount, formatDay, formatMonth, monthAfter } from '../page/format.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { Table } from '../page/table.ts';
import { useLoaded } from '../page/use-loaded.ts';
import { UsageChart } from './usage-chart.ts';

type Props = {
  load: (month: string, signal: AbortSignal) => Promise<Usage>;
  /** Called when the user clicks Refresh. */
  refreshed?: () => void;
};

/** The usage of one month by day and model, with buttons for other months. */
export function MonthOfUsage({ load, refreshed }: Props) {
  const thisMonth = new Date().toISOString().slice(0, 7);
  const [month, setMonth] = useState(thisMonth);
  const loaded = useLoaded((signal) => load(month, signal), [month]);
  const refresh = () => {
    loaded.reload();
    refreshed?.();
  };
  return h(
    'section',
    { 'aria-labelledby': 'usage-title' },
    h('h2', { id: 'usage-title', 'aria-live': 'polite' }, `Requests and tokens in ${formatMonth(month)}`),
    h(
      'div',
      { class: 'actions' },
      h('button', { type: 'button', onClick: () => setMonth(monthAfter(month, -1)) }, 'Previous month'),
      h(
        'button',
        { type: 'button', disabled: month >= thisMonth, onClick: () => setMonth(monthAfter(month, 1)) },
        'Next month',
      ),
      h('button', { type: 'button', onClick: refresh }, 'Refresh'),
    ),
    h(LoadedView<Usage>, { loaded, what: 'the usage', children: (usage) => h(UsageOfMonth, { usage }) }),
  );
}

function UsageOfMonth({ usage: { month, total, data } }: { usage: Usage }) {
  if (data.length === 0) return h('p', { class: 'empty' }, `No usage in ${formatMonth(month)}.`);
  return [
    h(UsageChart, { month, days: data }),
    h(Table<UsageDay>, {
      caption: `By day (UTC) and model; total: ${formatCount(total.requests)} requests, ${formatCount(total.chargedTokens)} tokens charged`,
      rows: data,
      rowKey: ({ day, model }) => `${day} ${model}`,
      columns: [
        { title: 'Day', cell: ({ day }) => formatDay(day) },
        { title: 'Model', cell: ({ model }) => model },
        ...counts.map(([title, name]) => ({
          title,
          cell: (row: UsageDay) => formatCount(row[name]),
          holds: 'number' as const,
        })),
      ],
    }),
  ];
}

const counts = [
  ['Requests', 'requests'],
  ['Failed', 'failed'],
  ['Cancelled', 'cancelled'],
  ['Prompt tokens', 'promptTokens'],
  ['Completion tokens', 'completionTokens'],
  ['Charged tokens', 'chargedTokens'],
  ['Overage tokens', 'overageTokens'],
] as const satisfies readonly (readonly [string, keyof UsageDay])[];
