import { type ComponentChildren, h } from 'preact';
import type { Quota } from '../../routes/quota.ts';
import { formatCount, formatDay, formatMonth } from '../page/format.ts';
import { QuotaBar } from './quota-bar.ts';
import { spentWords } from './quota-words.ts';

/** The tokens of this month as a bar and as numbers. */
export function QuotaView({ quota }: { quota: Quota }) {
  const { period, limit, used, reserved, remaining, topUp, resetDate, topupUrl } = quota;
  return h(
    'section',
    { 'aria-labelledby': 'quota-title' },
    h('h2', { id: 'quota-title' }, `Tokens in ${formatMonth(period.start.slice(0, 7))}`),
    limit !== null && h(QuotaBar, { quota, limit }),
    h(
      'dl',
      { class: 'figures' },
      figure('Used', formatCount(used), 'used'),
      figure('Reserved', formatCount(reserved), 'reserved'),
      figure('Remaining', remaining === null ? 'no limit' : formatCount(remaining), 'rest', 'remaining'),
      figure('Allowance', limit === null ? 'no limit' : formatCount(limit), 'limit'),
      figure('Top-ups', formatCount(topUp), 'topUp'),
      figure('Overage', overageOf(quota), 'over', 'overage'),
      figure('Resets', formatDay(resetDate), 'resetDate'),
    ),
    remaining === 0 && h('p', { class: 'warning' }, spentWords(quota)),
    h('p', null, h('a', { href: topupUrl }, 'Top up')),
  );
}

function overageOf({ overageEnabled, overageUsed, overageLimit }: Quota): string {
  const bound = overageLimit === null ? '' : ` of ${formatCount(overageLimit)}`;
  return `${overageEnabled ? 'on' : 'off'}, ${formatCount(overageUsed)}${bound} used`;
}

/** `colour` names the segment of the bar; the figure has the same name unless `name` is given. */
function figure(term: string, value: ComponentChildren, colour: string, name = colour) {
  const swatch = parts.has(colour) && h('span', { class: `swatch ${colour}`, 'aria-hidden': true });
  return h('div', { key: name }, h('dt', null, swatch, term), h('dd', { 'data-figure': name }, value));
}

const parts = new Set(['used', 'reserved', 'rest', 'over']);
