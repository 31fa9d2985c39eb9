import { type ComponentChildren, h } from 'preact';
import type { FleetView } from '../../routes/fleet.ts';
import type { FleetHistory } from '../../routes/fleet-history.ts';
import type { UsageReport } from '../../usage/usage-report.ts';
import type { Api } from '../api/api.ts';
import { type LoadState, useLoaded, usePolled } from '../api/use-loaded.ts';
import { Tile, Tiles } from '../charts/tile.ts';
import { formatRate } from '../fleet/backend-matrix.ts';
import { formatCount, formatHour, formatMs, formatPercent, formatShort } from '../page/format.ts';
import { Failure } from '../page/loaded-view.ts';
import { forecastDays, monthForecast } from '../usage/month-forecast.ts';
import {
  amountIn,
  costsOf,
  errorShare,
  errorsOf,
  firstHour,
  formatAmount,
  lineHours,
  longestWait,
  type RangeName,
  rangeLabels,
  rateNow,
  ratesOf,
  rateWords,
} from './service-numbers.ts';

type Props = {
  api: Api;
  range: RangeName;
  history: LoadState<FleetHistory>;
  fleet: FleetView | undefined;
};

/** How the service does, each number with its line. */
export function ServiceTiles({ api, range, history, fleet }: Props) {
  const { value, error, reload } = history;
  const common = { history: value ?? noHistory, range };
  return [
    error !== undefined && h(Failure, { error, retry: reload }),
    h(
      Tiles,
      null,
      h(RequestsTile, common),
      h(ErrorsTile, common),
      h(FirstTokenTile, common),
      h(QueueTile, { ...common, fleet }),
      h(CostTile, { api, range }),
    ),
  ];
}

const noHistory: FleetHistory = {
  object: 'fleet.history',
  step_seconds: 300,
  total: { requests: 0, errors: {}, longest_wait_ms: 0, first_token_ms: null, backends: [] },
  data: [],
};

type PartProps = { history: FleetHistory; range: RangeName };

function ofRange(range: RangeName): string {
  return range === '1h' ? 'of the last hour, each five minutes' : `of the last ${rangeLabels[range]}, each hour`;
}

function RequestsTile({ history, range }: PartProps) {
  const now = Date.now() / 1_000;
  return h(Tile, {
    title: 'Requests',
    value: formatRate(rateNow(history, now)),
    note: `${rateWords(history)}; ${formatCount(history.total.requests)} in ${rangeLabels[range]}`,
    line: { values: ratesOf(history, now), label: `Requests ${ofRange(range)}`, format: formatRate },
  });
}

/** More is shown as bad. */
const errorShareMax = 0.05;

function ErrorsTile({ history: { total, data }, range }: PartProps) {
  const share = errorShare(total);
  const { ofService, ofClients } = errorsOf(total);
  const [worst] = ofService;
  const tone = share !== null && share > errorShareMax ? 'bad' : undefined;
  return h(Tile, {
    title: 'Errors',
    value: share === null ? '–' : formatPercent(share),
    note: [
      worst === undefined ? 'none of the service' : [`${formatCount(worst[1])} × `, breakable(worst[0])],
      ofClients > 0 && `, ${formatCount(ofClients)} of clients`,
    ],
    tone,
    line: {
      values: data.map(errorShare),
      label: `Share of errors of the service ${ofRange(range)}`,
      format: formatPercent,
      tone,
    },
  });
}

/** A code can be longer than a line. */
function breakable(code: string): ComponentChildren {
  return code.split(/(?<=_)/).flatMap((part, index) => (index === 0 ? [part] : [h('wbr', null), part]));
}

function FirstTokenTile({ history: { total, data }, range }: PartProps) {
  const { first_token_ms: firstToken } = total;
  return h(Tile, {
    title: 'First token',
    value: firstToken === null ? '–' : formatMs(firstToken.p50),
    note: firstToken === null ? '' : `95 of 100 within ${formatMs(firstToken.p95)}`,
    line: {
      values: data.map((step) => step.first_token_ms?.p95 ?? null),
      label: `First token (95 of 100 within it) ${ofRange(range)}`,
      format: formatMs,
    },
  });
}

function QueueTile({ history, range, fleet }: PartProps & { fleet: FleetView | undefined }) {
  const models = fleet?.pools.flatMap((pool) => pool.models);
  const queued = models?.reduce((sum, model) => sum + model.queued.interactive, 0);
  const longest = longestWait(history);
  return h(Tile, {
    title: 'Queued now',
    value: queued === undefined ? '–' : formatCount(queued),
    note:
      longest === undefined
        ? 'none has waited'
        : `longest wait ${formatMs(longest.longest_wait_ms)}, ${formatHour(Date.parse(longest.start) / 1_000)}`,
    line: {
      values: history.data.map((step) => step.longest_wait_ms),
      label: `Longest wait ${ofRange(range)}`,
      format: formatMs,
    },
  });
}

const usageEveryMs = 60_000;

/** The cost, or without prices the charged tokens. Usage is read seldom: it is that of all accounts. */
function CostTile({ api, range }: { api: Api; range: RangeName }) {
  const now = Date.now() / 1_000;
  const { start, end } = lineHours(range, now);
  const { start: firstDay, end: lastDay } = forecastDays(now * 1_000);
  const hours = useLoaded(
    (signal) => api.call<UsageReport>(`/admin/usage?group_by=hour&start=${start}&end=${end}`, { signal }),
    [start, end],
  );
  const days = useLoaded(
    (signal) => api.call<UsageReport>(`/admin/usage?group_by=day&start=${firstDay}&end=${lastDay}`, { signal }),
    [lastDay],
  );
  for (const part of [hours, days]) usePolled(part, { everyMs: usageEveryMs });
  const costs = hours.value && costsOf(hours.value, firstHour(range, now));
  const hasFailed = hours.error !== undefined || days.error !== undefined;
  const title = costs !== undefined && costs.currency === undefined ? 'Tokens charged' : 'Cost';
  return h(Tile, {
    title,
    value: costs === undefined ? '–' : formatTotal(costs),
    note: hasFailed ? 'not all could be read, trying again' : days.value && monthWords(days.value, now * 1_000),
    line: {
      values: costs?.line ?? [],
      label: `${title} ${ofRange(range === '1h' ? '24h' : range)}`,
      format: (value) => formatAmount(value, costs?.currency),
    },
  });
}

function formatTotal({ total, currency }: { total: number; currency: string | undefined }): string {
  return currency === undefined ? formatShort(total) : formatAmount(total, currency);
}

function monthWords({ data, currency }: UsageReport, nowMs: number): string {
  const total = monthForecast(data, amountIn(currency), nowMs);
  return `about ${formatTotal({ total, currency })} this month`;
}
