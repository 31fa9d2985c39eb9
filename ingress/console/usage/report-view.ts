import { h } from 'preact';
import type { GroupName } from '../../usage/usage-query.ts';
import type { UsageReport } from '../../usage/usage-report.ts';
import type { Api } from '../api/api.ts';
import { useLoaded } from '../api/use-loaded.ts';
import { hourText } from '../charts/steps.ts';
import { DownloadButton } from '../page/actions.ts';
import type { RequestFilter, UsageFilter } from '../page/console-route.ts';
import { formatCount, formatDay, formatHour } from '../page/format.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { type Filters, filterOf, filtersOf, ReportFilters, rangeIn } from './report-filters.ts';
import { Cost, ReportTable } from './report-table.ts';
import { UsageOverTime } from './usage-over-time.ts';
import { changeOf, hasHours, hoursOf, isOfHours, lengthOf, rangeBefore, type UsageRange } from './usage-range.ts';
import type { Part } from './usage-series.ts';

type Props = {
  api: Api;
  /** The route of the reports. */
  path: string;
  filter: UsageFilter;
  choose: (filter: UsageFilter) => void;
  /** Whether it is that of all accounts, which has hours of fewer days and groups. */
  isOfAll?: boolean;
  keyNames?: ReadonlyMap<string, string>;
  /** Whose requests can be listed; undefined: of all accounts, which have no list. */
  requestsOf?: RequestFilter;
  /** Called when the user clicks Refresh. */
  refreshed?: () => void;
};

type Reports = {
  report: UsageReport;
  overTime: UsageReport;
  part: Part;
  before: UsageReport['total'];
  earlier: UsageRange;
};

const noNames: ReadonlyMap<string, string> = new Map();
const topRows = 100;
const ownGroups: readonly GroupName[] = ['day', 'hour', 'model', 'key', 'endpoint'];
const parts: readonly Part[] = ['model', 'key', 'endpoint'];

/**
 * Usage in a range by chosen groups and over time, compared with the time before, with an export. Of accounts, only those with the most.
 */
export function UsageReportView(props: Props) {
  const { api, path, filter, choose, isOfAll = false, keyNames = noNames, requestsOf, refreshed } = props;
  const hour = hourText(Date.now() / 1_000);
  const daysMax = isOfAll ? 8 : 62;
  const filters = filtersOf(filter, {
    period: 'this-month',
    own: { start: hour.slice(0, 10), end: hour.slice(0, 10) },
    group: isOfAll ? 'account' : 'day',
    further: isOfAll ? [] : ['model'],
  });
  const range = rangeIn(filters, hour);
  const offered = offeredGroups(range, { isOfAll, hasHours: hasHours(range, { hour, daysMax }) });
  const groups = groupsOf(filters, offered);
  const isTop = groups.includes('account');
  const load = (signal: AbortSignal): Promise<Reports> =>
    loadReports({
      range,
      groups,
      isTop,
      isOfAll,
      hour,
      daysMax,
      read: (query) => api.call(`${path}?${query}`, { signal }),
    });
  const loaded = useLoaded(load, [path, range.start, range.end, groups.join()]);
  const refresh = () => {
    loaded.reload();
    refreshed?.();
  };
  return h(
    'section',
    { 'aria-labelledby': 'usage-title' },
    h('h2', { id: 'usage-title', 'aria-live': 'polite' }, `Requests and tokens, ${formatRange(range)}`),
    h(ReportFilters, {
      filters: { ...filters, group: groups.includes(filters.group) ? filters.group : (groups[0] ?? filters.group) },
      change: (wanted) => choose(filterOf(wanted)),
      offered,
      hour,
    }),
    h(
      'div',
      { class: 'actions' },
      h('button', { type: 'button', onClick: refresh }, 'Refresh'),
      h(DownloadButton, {
        api,
        path: `${path}?${queryOf(range, groups, { format: 'csv' })}`,
        name: `usage-${range.start}-${range.end}.csv`,
        label: 'Export as CSV',
      }),
    ),
    h(LoadedView<Reports>, {
      loaded,
      what: 'the usage',
      lines: 20,
      children: (shown) => h(ShownReports, { ...shown, keyNames, isTop, requestsOf }),
    }),
  );
}

/** What a range can be grouped by: hours only of a range that has them, and of all accounts only by account and model. */
function offeredGroups(range: UsageRange, { isOfAll, hasHours }: { isOfAll: boolean; hasHours: boolean }) {
  const all: readonly GroupName[] = isOfAll ? ['account', ...ownGroups] : ownGroups;
  if (!isOfHours(range)) return all.filter((name) => name !== 'hour' || hasHours);
  return all.filter((name) => name !== 'day' && !(isOfAll && (name === 'key' || name === 'endpoint')));
}

const hourGroupsOfAll: readonly GroupName[] = ['account', 'hour', 'model'];

/** Those that are chosen, in the order of reports; of a time that is not offered, the other one. */
function groupsOf({ group, further }: Filters, offered: readonly GroupName[]): GroupName[] {
  const others = { day: 'hour', hour: 'day' } as const;
  const wanted = [group, ...further].map((name) =>
    (name === 'day' || name === 'hour') && !offered.includes(name) ? others[name] : name,
  );
  const groups = offered.filter((name) => wanted.includes(name));
  const isHourlyOfAll = groups.includes('hour') && offered.includes('account');
  const kept = isHourlyOfAll ? groups.filter((name) => hourGroupsOfAll.includes(name)) : groups;
  return kept.length > 0 ? kept : offered.slice(0, 1);
}

type LoadOptions = {
  range: UsageRange;
  groups: readonly GroupName[];
  isTop: boolean;
  isOfAll: boolean;
  hour: string;
  daysMax: number;
  read: (query: string) => Promise<UsageReport>;
};

/** The rows, the same usage over time, and the total of the time before. */
async function loadReports({ range, groups, isTop, isOfAll, hour, daysMax, read }: LoadOptions): Promise<Reports> {
  const earlier = rangeBefore(range, { hour, daysMax });
  const isOneDay = lengthOf(range) === 1 && hasHours(range, { hour, daysMax });
  const isHourly = isOfHours(range) || isOneDay || groups.includes('hour');
  const charted = isHourly ? hoursOf(range) : range;
  const part = parts.find((name) => groups.includes(name) && !(isOfAll && isHourly)) ?? 'model';
  const [report, overTime, before] = await Promise.all([
    read(queryOf(range, groups, isTop ? { order: 'charged', limit: String(topRows) } : {})),
    read(queryOf(charted, [isHourly ? 'hour' : 'day', part])),
    // Only its total is shown. Models are few.
    read(queryOf(earlier, ['model'])),
  ]);
  return { report, overTime, part, before: before.total, earlier };
}

function queryOf({ start, end }: UsageRange, groups: readonly GroupName[], more: Record<string, string> = {}): string {
  return new URLSearchParams({ start, end, group_by: groups.join(), ...more }).toString();
}

type ShownProps = Reports & {
  keyNames: ReadonlyMap<string, string>;
  isTop: boolean;
  requestsOf: RequestFilter | undefined;
};

function ShownReports({ report, overTime, part, before, earlier, keyNames, isTop, requestsOf }: ShownProps) {
  const nameOf = (value: string | null) =>
    part === 'key' ? (value === null ? 'sign-in token' : (keyNames.get(value) ?? value)) : (value ?? '');
  return [
    h(ReportFigures, { report, before, earlier }),
    report.data.length === 0
      ? h('p', { class: 'empty' }, `No usage from ${formatRange(report)}.`)
      : [
          h(UsageOverTime, { report: overTime, part, nameOf, requestsOf }),
          h(ReportTable, { key: report.groupBy.join(), report, keyNames, isTop }),
        ],
  ];
}

type FigureProps = { report: UsageReport; before: UsageReport['total']; earlier: UsageRange };

/** The totals of a report, and how they differ from those of the time before. */
function ReportFigures({ report, before, earlier }: FigureProps) {
  const { total, currency } = report;
  const figures = [
    ['Requests', formatCount(total.requests), changeOf(total.requests, before.requests)],
    ['Tokens charged', formatCount(total.chargedTokens), changeOf(total.chargedTokens, before.chargedTokens)],
    ...(currency === undefined || total.cost === undefined
      ? []
      : ([
          ['Cost', h(Cost, { cost: total.cost, currency }), changeOf(Number(total.cost), Number(before.cost ?? 0))],
        ] as const)),
    ...(total.refused ? ([['Refused requests', formatCount(total.refused), '']] as const) : []),
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
          h('dd', { class: 'change' }, change),
        ),
      ),
    ),
    h(
      'p',
      { class: 'quiet' },
      `Compared with ${formatRange(earlier)}.`,
      Boolean(total.unpricedTokens) && ` ${formatCount(total.unpricedTokens ?? 0)} tokens have no price.`,
    ),
  ];
}

/** Days are those of UTC; hours are in the time zone of the user. */
function formatRange(range: { start: string; end: string }): string {
  const [from, to] = isOfHours(range) ? hoursWords(range) : [formatDay(range.start), formatDay(range.end)];
  return from === to ? from : `${from} to ${to}`;
}

function hoursWords({ start, end }: { start: string; end: string }): [from: string, to: string] {
  const seconds = (hour: string) => Date.parse(`${hour}:00Z`) / 1_000;
  return [formatHour(seconds(start)), formatHour(seconds(end) + 3_600)];
}
