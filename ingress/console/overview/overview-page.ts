import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Batch } from '../../routes/present-batch.ts';
import type { Key } from '../../routes/present-key.ts';
import type { RequestList } from '../../routes/present-request.ts';
import type { LimitsInUse, Quota } from '../../routes/quota.ts';
import type { UsageReport } from '../../usage/usage-report.ts';
import type { Api } from '../api/api.ts';
import { type LoadState, useLoaded, usePolled } from '../api/use-loaded.ts';
import { hourSeconds, sumsBy } from '../charts/steps.ts';
import { Tile, Tiles } from '../charts/tile.ts';
import { TimeChart } from '../charts/time-chart.ts';
import type { HeldKeys } from '../keys/held-keys.ts';
import { requestsLink, usageLink } from '../page/console-route.ts';
import { Choice } from '../page/fields.ts';
import {
  formatChange,
  formatCost,
  formatCount,
  formatDay,
  formatHour,
  formatMs,
  formatPercent,
  formatShare,
  formatShort,
} from '../page/format.ts';
import { Failure, LoadedView } from '../page/loaded-view.ts';
import { dailyUse, forecastDays, monthForecast, usedUpAt } from '../usage/month-forecast.ts';
import { LimitsPanel, MonthNote } from '../usage/quota-view.ts';
import { Attention } from './attention.ts';
import { CallTheApi } from './call-the-api.ts';
import { FirstSteps } from './first-steps.ts';
import {
  type ChartedBy,
  chartedBy,
  chartQuery,
  hoursIn,
  type Span,
  sentIn,
  seriesBy,
  spans,
  stepsOfSpan,
  wordsOfSpan,
} from './hours-report.ts';

const refreshEveryMs = 15_000;
const usageEveryMs = 30_000;

type Props = { api: Api; baseUrl: string; docsUrl: string; held: HeldKeys; isOperator: boolean };

/** The home of an account: what it has used and got lately, what needs attention, and how to call the API. */
export function OverviewPage({ api, baseUrl, docsUrl, held, isOperator }: Props) {
  const [span, setSpan] = useState<Span>('day');
  const quota = useLoaded((signal) => api.call<Quota>('/billing/quota', { signal }), []);
  const limits = useLoaded((signal) => api.call<LimitsInUse>('/billing/limits', { signal }), []);
  const keys = useLoaded((signal) => api.call<{ data: Key[] }>('/v1/keys', { signal }), []);
  const latest = useLoaded((signal) => api.call<RequestList>('/v1/requests?limit=1', { signal }), []);
  const batches = useLoaded((signal) => api.call<{ data: Batch[] }>('/v1/batches?limit=20', { signal }), []);
  const usage = useLoaded((signal) => readUsage(api, { span, signal }), [span]);
  usePolled(usage, { everyMs: usageEveryMs });
  for (const part of [quota, limits, latest, batches]) usePolled(part, { everyMs: refreshEveryMs });

  const [request] = latest.value?.data ?? [];
  return [
    h(
      'div',
      { class: 'page-head' },
      h('h1', { tabIndex: -1 }, 'Overview'),
      h(Choice<Span>, { legend: 'Shown', options: spans, chosen: span, choose: setSpan }),
    ),
    h(FirstSteps, {
      // Operators work with the accounts of others.
      isKnown: !isOperator && [quota, keys, latest].every(({ value }) => value !== undefined),
      hasKey: keys.value?.data.some(({ purpose }) => purpose === null) ?? false,
      hasRequest: request !== undefined,
      isUsed: (quota.value?.used ?? 0) > 0 || request?.charged_tokens != null,
      holdsKey: held.fresh.length > 0,
      docsUrl,
    }),
    h(LoadedView<SpanUsage>, {
      loaded: usage,
      what: 'your usage',
      lines: 4,
      children: (loaded) => h(UsageTiles, { usage: loaded }),
    }),
    h(
      'div',
      { class: 'columns' },
      h(
        'section',
        { class: 'card panel', 'aria-label': 'Requests over time' },
        h(LoadedView<SpanUsage>, {
          loaded: usage,
          what: 'the chart',
          lines: 8,
          children: (loaded) => h(UsageChart, { api, usage: loaded, keys: keys.value?.data ?? [] }),
        }),
      ),
      h(LimitsAndMonth, { limits, quota, usage, docsUrl }),
    ),
    h(
      'div',
      { class: 'columns' },
      h(Attention, {
        usage: usage.value?.hours,
        models: usage.value?.models,
        keys: keys.value?.data,
        batches: batches.value?.data,
      }),
      h(CallTheApi, { baseUrl, keys, api }),
    ),
  ];
}

/** `hours` of the span, and the same by model; `before` is the total of the span before it, `days` those of a forecast. */
export type SpanUsage = {
  span: Span;
  at: number;
  hours: UsageReport;
  models: UsageReport;
  before: UsageReport['total'];
  days: UsageReport['data'];
};

async function readUsage(api: Api, { span, signal }: { span: Span; signal: AbortSignal }): Promise<SpanUsage> {
  const at = Date.now();
  const report = (query: Record<string, string>) =>
    api.call<UsageReport>(`/billing/usage?${new URLSearchParams(query)}`, { signal });
  const [hours, models, before, days] = await Promise.all([
    report({ ...hoursIn(span, at), group_by: 'hour' }),
    report({ ...hoursIn(span, at), group_by: 'model' }),
    report({ ...hoursIn(span, at, 1), group_by: 'model' }),
    report({ ...forecastDays(at), group_by: 'day' }),
  ]);
  return { span, at, hours, models, before: before.total, days: days.data };
}

function UsageTiles({ usage: { span, at, hours, before, days } }: { usage: SpanUsage }) {
  const { total, data, currency = '' } = hours;
  const steps = stepsOfSpan(span, at);
  const words = wordsOfSpan(span);
  const { refused = 0, firstTokenMs } = total;
  const asked = sentIn(total);
  const wrong = total.failed + refused;
  const change = formatChange(sentIn(total), sentIn(before));
  const forecast = monthForecast(days, ({ cost = '0' }) => Number(cost), at);
  const tokens = total.promptTokens + total.completionTokens;
  const line = (label: string, values: number[], format: (value: number) => string) => {
    const each = steps.stepSeconds === hourSeconds ? 'hour' : 'day (UTC)';
    return { label: `${label} of the last ${words}, each ${each}`, values, format };
  };
  const firstTokens = new Map(data.map((row) => [Date.parse(row.hour ?? '') / 1_000, row.firstTokenMs?.p95]));
  return h(
    Tiles,
    null,
    h(Tile, {
      title: 'Requests',
      value: formatCount(asked),
      note: change === undefined ? 'no earlier requests' : `${change} on the ${words} before`,
      line: line('Requests', sumsBy(data, steps, sentIn), (count) => `${formatCount(count)} requests`),
      href: requestsLink({}),
    }),
    h(Tile, {
      title: 'Tokens',
      value: formatShort(tokens),
      exact: `${formatCount(tokens)} tokens`,
      note: shares(total),
      line: line('Tokens', sumsBy(data, steps, tokensOf), (count) => `${formatShort(count)} tokens`),
      href: '#usage',
    }),
    total.cost !== undefined &&
      h(Tile, {
        title: 'Cost',
        value: formatCost(total.cost, currency),
        exact: `${total.cost} ${currency}`,
        note: `about ${formatCost(forecast, currency)} this month`,
        line: line(
          'Cost',
          sumsBy(data, steps, ({ cost = '0' }) => Number(cost)),
          (value) => formatCost(value, currency),
        ),
        href: usageLink({ by: 'key' }),
      }),
    h(Tile, {
      title: 'Errors',
      value: asked === 0 ? '–' : formatPercent(wrong / asked),
      note: wrong === 0 ? 'none' : `${formatCount(total.failed)} failed, ${formatCount(refused)} refused`,
      tone: wrong > 0 ? 'bad' : undefined,
      line: {
        ...line(
          'Errors',
          sumsBy(data, steps, ({ failed, refused: no = 0 }) => failed + no),
          (count) => `${formatCount(count)} errors`,
        ),
        tone: wrong > 0 ? 'bad' : undefined,
      },
      href: requestsLink({ outcome: 'failed' }),
    }),
    h(Tile, {
      title: 'First token, p50 / p95',
      value:
        firstTokenMs == null
          ? '–'
          : [h('span', null, formatMs(firstTokenMs.p50)), h('small', null, ` / ${formatMs(firstTokenMs.p95)}`)],
      note: firstTokenMs == null ? 'no streamed answer' : 'from the admission of a request',
      line: {
        ...line('First token (p95)', [], formatMs),
        values: span === 'month' ? [] : steps.times.map((time) => firstTokens.get(time) ?? null),
      },
    }),
  );
}

function tokensOf({ promptTokens, completionTokens }: { promptTokens: number; completionTokens: number }): number {
  return promptTokens + completionTokens;
}

function shares({ promptTokens, completionTokens, cachedTokens }: UsageReport['total']): string {
  const all = promptTokens + completionTokens;
  if (all === 0) return 'none';
  return `${formatShare(promptTokens, all)} prompt, ${formatShare(cachedTokens, all)} cached`;
}

/** The hours, or days, by outcome, model, key or cost; a click opens the requests of one. Read again each time that the usage is. */
function UsageChart({ api, usage, keys }: { api: Api; usage: SpanUsage; keys: readonly Key[] }) {
  const [by, setBy] = useState<ChartedBy>('outcome');
  const { span, at, hours } = usage;
  const read = async (signal: AbortSignal) => {
    if (by === 'outcome') return undefined;
    return api.call<UsageReport>(`/billing/usage?${chartQuery({ span, by }, at)}`, { signal });
  };
  const grouped = useLoaded(read, [by, span]);
  const readAt = useRef(at);
  useEffect(() => {
    if (readAt.current !== at) grouped.reload();
    readAt.current = at;
  }, [at]);
  const steps = stepsOfSpan(span, at);
  const { currency = '' } = hours;
  const names = new Map(keys.map(({ id, name }) => [id, name]));
  const nameOfKey = (id: string | null) => (id === null ? 'sign-in token' : (names.get(id) ?? id));
  const each = steps.stepSeconds === hourSeconds ? 'hour' : 'day';
  const eachWords = each === 'hour' ? each : 'day (UTC)';
  const isCost = by === 'cost';
  const timeWords = (seconds: number) =>
    each === 'hour' ? formatHour(seconds) : formatDay(new Date(seconds * 1_000).toISOString().slice(0, 10));
  const openAt = (index: number) => {
    const start = steps.times[index] ?? 0;
    const iso = (seconds: number) => new Date(seconds * 1_000).toISOString();
    window.location.hash = requestsLink({ start: iso(start), end: iso(start + steps.stepSeconds) });
  };
  const chart = h(TimeChart, {
    ...steps,
    title: isCost ? `Cost by model, ${currency} each ${eachWords}` : `Requests by ${by}, each ${eachWords}`,
    kind: 'bars',
    series: seriesBy((by === 'outcome' ? hours : grouped.value)?.data ?? [], { ...steps, by, nameOfKey }),
    format: formatShort,
    formatTime: timeWords,
    formatValue: (value) => (isCost ? formatCost(value, currency) : formatCount(value)),
    open: { label: 'opens these requests', at: openAt },
    children: h(Choice<string>, {
      legend: 'By',
      options: hours.currency === undefined ? withoutCost : chartedBy,
      chosen: by,
      choose: (name) => setBy(name as ChartedBy), // one of the options
    }),
  });
  return h(
    'div',
    { class: 'loaded', 'aria-busy': grouped.loading },
    grouped.error !== undefined && h(Failure, { error: grouped.error, retry: grouped.reload }),
    chart,
  );
}

const { cost: _, ...withoutCost } = chartedBy;

type LimitsProps = {
  limits: LoadState<LimitsInUse>;
  quota: LoadState<Quota>;
  usage: LoadState<SpanUsage>;
  docsUrl: string;
};

/** The highest use of the last hour, and when the month is used up. */
function LimitsAndMonth({ limits, quota, usage, docsUrl }: LimitsProps) {
  return h(
    'div',
    null,
    h(LimitsPanel, { loaded: limits, what: 'your limits', more: { href: `${docsUrl}/limits`, link: 'About limits' } }),
    h(
      'section',
      { class: 'card panel', 'aria-label': 'This month' },
      h(LoadedView<Quota>, {
        loaded: quota,
        what: 'your quota',
        lines: 2,
        children: (value) => {
          const { days = [], at = Date.now() } = usage.value ?? {};
          const perDay = dailyUse(days, ({ chargedTokens }) => chargedTokens, at);
          return h(MonthNote, { quota: value, usedUpAt: usedUpAt(value, perDay, at) });
        },
      }),
    ),
  );
}
