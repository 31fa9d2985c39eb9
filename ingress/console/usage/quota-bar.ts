import { h } from 'preact';
import type { Quota } from '../../routes/quota.ts';
import { formatCount } from '../page/format.ts';

/** Usage beyond the allowance has a separate colour and starts at a mark. */
export function QuotaBar({ quota, limit, height = 16 }: { quota: Quota; limit: number; height?: number }) {
  const { used, reserved, remaining } = quota;
  const whole = Math.max(1, limit, used + reserved);
  const share = (tokens: number) => (100 * tokens) / whole;
  const percent = Math.round((100 * used) / Math.max(1, limit));
  const label = `${percent} % used: ${formatCount(used)} used, ${formatCount(reserved)} reserved, ${formatCount(remaining ?? 0)} remaining of ${formatCount(limit)} tokens`;
  return h(
    'svg',
    { class: 'quota-bar', role: 'img', 'aria-label': label, height, width: '100%' },
    h('rect', { class: 'rest', width: '100%', height: '100%' }),
    h('rect', { class: 'used', width: `${share(Math.min(used, limit))}%`, height: '100%' }),
    h('rect', { class: 'over', x: `${share(limit)}%`, width: `${share(Math.max(0, used - limit))}%`, height: '100%' }),
    h('rect', { class: 'reserved', x: `${share(used)}%`, width: `${share(reserved)}%`, height: '100%' }),
    whole > limit && h('rect', { class: 'mark', x: `${share(limit)}%`, width: 3, height: '100%' }),
  );
}
