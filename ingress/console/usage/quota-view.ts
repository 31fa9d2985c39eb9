import { type ComponentChildren, h } from 'preact';
import type { LimitsInUse, Quota } from '../../routes/quota.ts';
import type { LoadState } from '../api/use-loaded.ts';
import { formatCount, formatDay, formatHour, formatMonth } from '../page/format.ts';
import { LoadedView, Panel } from '../page/loaded-view.ts';

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
      { class: 'figures seven' },
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

type PartProps<Value> = { loaded: LoadState<Value>; what: string; more?: { href: string; link: string } };

/** The tokens of the month in a few words. */
export function MonthPanel({ loaded, what, ...panel }: PartProps<Quota>) {
  return h(
    Panel,
    { title: 'This month', ...panel },
    h(LoadedView<Quota>, { loaded, what, children: (quota) => h(MonthCard, { quota }) }),
  );
}

function MonthCard({ quota }: { quota: Quota }) {
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

/** Usage beyond the allowance has a separate colour and starts at a mark. */
function QuotaBar({ quota, limit, height = 16 }: { quota: Quota; limit: number; height?: number }) {
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

/** What happens to requests of a month whose allowance is used up. */
function spentWords({ overageEnabled, overageUsed, overageLimit, limit, used, reserved, resetDate }: Quota): string {
  const refused = `requests get 402 quota_exceeded until ${formatDay(resetDate)}`;
  if (!overageEnabled) return `The allowance is used up: ${refused}, a top-up, or overage.`;
  const beyond = Math.max(overageUsed, used + reserved - (limit ?? 0));
  if (overageLimit !== null && beyond >= overageLimit)
    return `The allowance and its overage are used up: ${refused}, or a top-up.`;
  return 'The allowance is used up. Overage is on: requests continue and are counted as overage.';
}

const names = {
  requestsPerMinute: 'Requests per minute',
  tokensPerMinute: 'Tokens per minute',
  requestsAtOnce: 'Requests at once',
  requestsPerDay: 'Requests today',
  batchRequestsAtOnce: 'Batch lines at once',
} as const;

/** When the allowance of the month is used up at the present rate (milliseconds since 1970), and what can be done. */
export function MonthNote({ quota, usedUpAt }: { quota: Quota; usedUpAt: number | undefined }) {
  const { limit, used, remaining, resetDate, topupUrl } = quota;
  if (limit === null) return h('p', { class: 'quiet' }, `This month: ${formatCount(used)} tokens, no limit.`);
  const soFar = `This month: ${formatCount(used)} of ${formatCount(limit)} tokens. `;
  if (remaining === 0)
    return h('p', { class: 'warning' }, soFar, spentWords(quota), ' ', h('a', { href: topupUrl }, 'Top up'));
  return h(
    'p',
    { class: 'quiet' },
    soFar,
    usedUpAt === undefined
      ? `It resets on ${formatDay(resetDate)}.`
      : ['At this rate it is used up on ', h('strong', { class: 'warning' }, formatHour(usedUpAt / 1_000)), '. '],
    usedUpAt !== undefined && [h('a', { href: topupUrl }, 'Top up'), ' · ', h('a', { href: '#webhooks' }, 'Alert me')],
  );
}

/** The limits of an account. */
export function LimitsPanel({ loaded, what, ...panel }: PartProps<LimitsInUse>) {
  return h(
    Panel,
    { title: 'Limits, highest in the last hour', ...panel },
    h(LoadedView<LimitsInUse>, { loaded, what, lines: 6, children: (limits) => h(LimitMeters, { limits }) }),
  );
}

/** How much of each limit was used at most in the last hour, or is used now if that is not known. */
function LimitMeters({ limits }: { limits: LimitsInUse }) {
  return h(
    'ul',
    { class: 'meters' },
    (Object.keys(names) as (keyof typeof names)[]).map((name) => h(Meter, { key: name, name, use: limits[name] })),
  );
}

type Use = { limit: number | null; used: number; highest?: number };

function Meter({ name, use }: { name: keyof typeof names; use: Use }) {
  const { limit } = use;
  const used = use.highest ?? use.used;
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
