import { h } from 'preact';
import type { Quota } from '../../routes/quota.ts';
import { formatCount, formatDay } from '../page/format.ts';
import { QuotaBar } from '../usage/quota-bar.ts';
import { spentWords } from '../usage/quota-words.ts';

/** The tokens of the month in a few words. */
export function MonthCard({ quota }: { quota: Quota }) {
  const { plan, limit, used, remaining, resetDate } = quota;
  return [
    h(
      'p',
      { class: 'headline' },
      h('strong', { 'data-figure': 'used' }, formatCount(used)),
      limit === null ? ' tokens used' : ` of ${formatCount(limit)} tokens used`,
    ),
    limit !== null && h(QuotaBar, { quota, limit, height: 10 }),
    h('p', { class: 'quiet' }, `Plan ${plan}. Resets on ${formatDay(resetDate)}.`),
    remaining === 0 && h('p', { class: 'warning' }, spentWords(quota)),
  ];
}
