import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { GroupName } from '../../usage/usage-query.ts';
import type { UsageReport } from '../../usage/usage-report.ts';
import type { Api } from '../api/api.ts';
import { useLoaded } from '../api/use-loaded.ts';
import { DownloadButton } from '../page/actions.ts';
import { formatCost, formatCount, formatDay } from '../page/format.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { changeOf, type DayRange, daysBefore, lengthOf } from './day-range.ts';
import { type Filters, ReportFilters, rangeOf } from './report-filters.ts';
import { ReportTable } from './report-table.ts';
import { UsageChart } from './usage-chart.ts';

type Props = {
  api: Api;
  /** The route of the reports. */
  path: string;
  /** The groups that can be chosen, and those that are chosen at first. */
  offered?: readonly GroupName[];
  usual?: readonly GroupName[];
  keyNames?: ReadonlyMap<string, string>;
  /** Called when the user clicks Refresh. */
  refreshed?: () => void;
};

type ReportPair = { report: UsageReport; before: UsageReport['total'] };

const noNames: ReadonlyMap<string, string> = new Map();
const topRows = 100;

/**
 * Usage in a range of days by chosen groups, compared with the days before, with an export. Of accounts, only those with the most usage.
 */
export function UsageReportView(props: Props) {
  const { api, path, offered = ['day', 'model', 'key', 'endpoint'], usual = ['day', 'model'] } = props;
  const { keyNames = noNames, refreshed } = props;
  const today = new Date().toISOString().slice(0, 10);
  const [filters, setFilters] = useState<Filters>({
    period: 'this-month',
    own: { start: today, end: today },
    groups: usual,
  });
  const range = rangeOf(filters, today);
  const { groups } = filters;
  const isTop = groups.includes('account');
  const load = async (signal: AbortSignal): Promise<ReportPair> => {
    const query = queryOf(range, groups, isTop ? { order: 'charged', limit: String(topRows) } : {});
    const [report, before] = await Promise.all([
      api.call<UsageReport>(`${path}?${query}`, { signal }),
      // Only its total is shown. Endpoints are few.
      api.call<UsageReport>(`${path}?${queryOf(daysBefore(range), ['endpoint'])}`, { signal }),
    ]);
    return { report, before: before.total };
  };
  const loaded = useLoaded(load, [path, range.start, range.end, groups.join()]);
  const refresh = () => {
    loaded.reload();
    refreshed?.();
  };
  return h(
    'section',
    { 'aria-labelledby': 'usage-title' },
    h('h2', { id: 'usage-title', 'aria-live': 'polite' }, `Requests and tokens, ${formatDays(range)}`),
    h(
      'div',
      { class: 'toolbar' },
      h(ReportFilters, { filters, change: setFilters, offered, today }),
      h(
        'div',
        { class: 'actions tight' },
        h('button', { type: 'button', onClick: refresh }, 'Refresh'),
        h(DownloadButton, {
          api,
          path: `${path}?${queryOf(range, groups, { format: 'csv' })}`,
          name: `usage-${range.start}-${range.end}.csv`,
          label: 'Export as CSV',
        }),
      ),
    ),
    h(LoadedView<ReportPair>, {
      loaded,
      what: 'the usage',
      children: (shown) => h(ShownReport, { ...shown, keyNames, isTop }),
    }),
  );
}

function queryOf({ start, end }: DayRange, groups: readonly GroupName[], more: Record<string, string> = {}): string {
  return new URLSearchParams({ start, end, group_by: groups.join(), ...more }).toString();
}

type ShownProps = ReportPair & { keyNames: ReadonlyMap<string, string>; isTop: boolean };

function ShownReport({ report, before, keyNames, isTop }: ShownProps) {
  return [
    h(ReportFigures, { report, before }),
    report.data.length === 0
      ? h('p', { class: 'empty' }, `No usage from ${formatDays(report)}.`)
      : [
          report.groupBy.includes('day') && !isTop && h(UsageChart, { range: report, rows: report.data }),
          h(ReportTable, { report, keyNames, isTop }),
        ],
  ];
}

/** The totals of a report, and how they differ from those of the days before. */
function ReportFigures({ report, before }: { report: UsageReport; before: UsageReport['total'] }) {
  const { total, currency } = report;
  const earlier = daysBefore(report);
  const figures = [
    ['Requests', formatCount(total.requests), changeOf(total.requests, before.requests)],
    ['Tokens charged', formatCount(total.chargedTokens), changeOf(total.chargedTokens, before.chargedTokens)],
    ...(currency === undefined || total.cost === undefined
      ? []
      : [['Cost', formatCost(total.cost, currency), changeOf(Number(total.cost), Number(before.cost ?? 0))] as const]),
  ] as const;
  return [
    h(
      'dl',
      { class: 'figures' },
      figures.map(([term, value, change]) =>
        h(
          'div',
          { key: term },
          h('dt', null, term),
          h('dd', { 'data-total': term }, value),
          h('dd', { class: 'change' }, change ?? 'nothing before'),
        ),
      ),
    ),
    h(
      'p',
      { class: 'quiet' },
      `Compared with the ${lengthOf(report) === 1 ? 'day' : `${lengthOf(report)} days`} before: ${formatDays(earlier)}.`,
      Boolean(total.unpricedTokens) && ` ${formatCount(total.unpricedTokens ?? 0)} tokens have no price.`,
    ),
  ];
}

function formatDays({ start, end }: { start: string; end: string }): string {
  return start === end ? formatDay(start) : `${formatDay(start)} to ${formatDay(end)}`;
}
