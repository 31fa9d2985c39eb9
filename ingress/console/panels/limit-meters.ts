import { h } from 'preact';
import type { LimitsInUse } from '../../routes/quota.ts';
import { formatCount } from '../page/format.ts';

const names = {
  requestsPerMinute: 'Requests per minute',
  tokensPerMinute: 'Tokens per minute',
  requestsAtOnce: 'Requests at once',
  requestsPerDay: 'Requests today',
  batchRequestsAtOnce: 'Batch lines at once',
} as const;

/** How much of each limit is used at this moment. */
export function LimitMeters({ limits }: { limits: LimitsInUse }) {
  return h(
    'ul',
    { class: 'meters' },
    (Object.keys(names) as (keyof typeof names)[]).map((name) => h(Meter, { key: name, name, use: limits[name] })),
  );
}

type Use = { limit: number | null; used: number };

function Meter({ name, use: { limit, used } }: { name: keyof typeof names; use: Use }) {
  const label = names[name];
  const share = limit === null || limit === 0 ? 0 : Math.min(1, used / limit);
  return h(
    'li',
    null,
    h('span', null, label),
    h(
      'span',
      { class: 'of' },
      limit === null ? `${formatCount(used)}, no limit` : `${formatCount(used)} of ${formatCount(limit)}`,
    ),
    limit !== null &&
      h(
        'svg',
        { class: 'meter', width: '100%', height: 6, 'aria-hidden': true },
        h('rect', { class: 'track', width: '100%', height: '100%', rx: 3 }),
        h('rect', { class: share >= 0.9 ? 'bar full' : 'bar', width: `${100 * share}%`, height: '100%', rx: 3 }),
      ),
  );
}
