import { h } from 'preact';
import type { GroupName } from '../../usage/usage-query.ts';
import { Select, TextField } from '../page/fields.ts';
import { type DayRange, daysOf, type Period, periods } from './day-range.ts';

/** What a report is asked for. `own` are the days if the period is `own`. */
export type Filters = { period: Period; own: DayRange; groups: readonly GroupName[] };

export const groupLabels = {
  account: 'account',
  day: 'day',
  hour: 'hour',
  model: 'model',
  key: 'key',
  endpoint: 'endpoint',
} as const;

export function rangeOf({ period, own }: Filters, today: string): DayRange {
  return period === 'own' ? own : daysOf(period, today);
}

type Props = {
  filters: Filters;
  change: (filters: Filters) => void;
  /** The groups that can be chosen. */
  offered: readonly GroupName[];
  today: string;
};

export function ReportFilters({ filters, change, offered, today }: Props) {
  const { period, own, groups } = filters;
  // Other days begin with those that are shown.
  const choose = (wanted: Period) => change({ ...filters, period: wanted, own: rangeOf(filters, today) });
  const toggle = (name: GroupName) =>
    change({ ...filters, groups: offered.filter((one) => (one === name) !== groups.includes(one)) });
  return [
    h(
      'div',
      { class: 'filters' },
      h(Select<Period>, { label: 'Period', options: periods, value: period, change: choose }),
      period === 'own' && [
        h(DayField, {
          key: 'start',
          label: 'First day (UTC)',
          day: own.start,
          set: (start) => change({ ...filters, own: { ...own, start } }),
        }),
        h(DayField, {
          key: 'end',
          label: 'Last day (UTC)',
          day: own.end,
          set: (end) => change({ ...filters, own: { ...own, end } }),
        }),
      ],
    ),
    h(
      'fieldset',
      { class: 'choice' },
      h('legend', null, 'Rows by'),
      offered.map((name) => {
        const isChosen = groups.includes(name);
        // A report has at least one group.
        const isLast = isChosen && groups.length === 1;
        return h(
          'label',
          { key: name },
          h('input', { type: 'checkbox', checked: isChosen, disabled: isLast, onChange: () => toggle(name) }),
          groupLabels[name],
        );
      }),
    ),
  ];
}

function DayField({ label, day, set }: { label: string; day: string; set: (day: string) => void }) {
  // A browser empties the field while the day is incomplete, and accepts years of more than four digits.
  const change = (value: string) => /^\d{4}-\d\d-\d\d$/.test(value) && set(value);
  return h(TextField, { label, value: day, change, input: { type: 'date', required: true } });
}
