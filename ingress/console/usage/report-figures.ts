import { h } from 'preact';
import type { UsageReport } from '../../usage/usage-report.ts';
import { formatCost, formatCount, formatDay } from '../page/format.ts';
import { changeOf, daysBefore, lengthOf } from './day-range.ts';

/** The totals of a report, and how they differ from those of the days before. */
export function ReportFigures({ report, before }: { report: UsageReport; before: UsageReport['total'] }) {
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

export function formatDays({ start, end }: { start: string; end: string }): string {
  return start === end ? formatDay(start) : `${formatDay(start)} to ${formatDay(end)}`;
}
