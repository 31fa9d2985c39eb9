import { h } from 'preact';
import type { GroupName } from '../../usage/usage-query.ts';
import type { UsageFilter } from '../page/console-route.ts';
import { Choice, TextField } from '../page/fields.ts';
import { type Period, periods, rangeOf, type UsageRange } from './usage-range.ts';

/**
 * What a report is asked for. `own` are the days if the period is `own`. Rows are by one group, and each of them by `further` ones.
 */
export type Filters = { period: Period; own: UsageRange; group: GroupName; further: readonly GroupName[] };

export const groupLabels = {
  account: 'account',
  day: 'day',
  hour: 'hour',
  model: 'model',
  key: 'key',
  endpoint: 'endpoint',
} as const satisfies Record<GroupName, string>;

/** What the address asks for. What it does not name, or names wrongly, is as in `first`. */
export function filtersOf({ period, start = '', end = '', by }: UsageFilter, first: Filters): Filters {
  const [group, ...further] = (by ?? '')
    .split(',')
    .filter((name): name is GroupName => Object.hasOwn(groupLabels, name));
  return {
    period: isPeriod(period) ? period : first.period,
    own: isDay(start) && isDay(end) ? { start, end } : first.own,
    ...(group === undefined ? { group: first.group, further: first.further } : { group, further }),
  };
}

/** The same for the address. */
export function filterOf({ period, own, group, further }: Filters): UsageFilter {
  return { period, ...(period === 'own' && own), by: [group, ...further].join() };
}

function isPeriod(name: string | undefined): name is Period {
  return name !== undefined && Object.hasOwn(periods, name);
}

function isDay(text: string): boolean {
  return /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text));
}

export function rangeIn({ period, own }: Filters, hour: string): UsageRange {
  return period === 'own' ? own : rangeOf(period, hour);
}

type Props = {
  filters: Filters;
  change: (filters: Filters) => void;
  /** The groups that can be chosen. */
  offered: readonly GroupName[];
  hour: string;
};

export function ReportFilters({ filters, change, offered, hour }: Props) {
  const { period, own, group, further } = filters;
  // Other days begin with those that are shown.
  const choose = (wanted: Period) => {
    const { start, end } = rangeIn(filters, hour);
    change({ ...filters, period: wanted, own: { start: start.slice(0, 10), end: end.slice(0, 10) } });
  };
  const toggle = (name: GroupName) =>
    change({ ...filters, further: offered.filter((one) => (one === name) !== further.includes(one)) });
  const labels = Object.fromEntries(offered.map((name) => [name, groupLabels[name]])) as Record<GroupName, string>; // those offered
  return h(
    'div',
    { class: 'report-filters' },
    h(Choice<Period>, { legend: 'Period', options: periods, chosen: period, choose }),
    period === 'own' &&
      h(
        'div',
        { class: 'filters' },
        h(DayField, {
          label: 'First day (UTC)',
          day: own.start,
          set: (start) => change({ ...filters, own: { ...own, start } }),
        }),
        h(DayField, {
          label: 'Last day (UTC)',
          day: own.end,
          set: (end) => change({ ...filters, own: { ...own, end } }),
        }),
      ),
    h(Choice<GroupName>, {
      legend: 'Rows by',
      options: labels,
      chosen: group,
      choose: (name) => change({ ...filters, group: name, further: [] }),
    }),
    h(
      'fieldset',
      { class: 'choice' },
      h('legend', null, 'And by'),
      offered
        .filter((name) => name !== group && !(isTime(name) && isTime(group)))
        .map((name) =>
          h(
            'label',
            { key: name },
            h('input', { type: 'checkbox', checked: further.includes(name), onChange: () => toggle(name) }),
            groupLabels[name],
          ),
        ),
    ),
  );
}

/** A report has hours or days, not both. */
function isTime(name: GroupName): boolean {
  return name === 'day' || name === 'hour';
}

function DayField({ label, day, set }: { label: string; day: string; set: (day: string) => void }) {
  // A browser empties the field while the day is incomplete, and accepts years of more than four digits.
  const change = (value: string) => isDay(value) && set(value);
  return h(TextField, { label, value: day, change, input: { type: 'date', required: true } });
}
