import { h } from 'preact';
import type { UsageReport } from '../../usage/usage-report.ts';
import type { Api } from '../api/api.ts';
import { useLoaded, usePolled } from '../api/use-loaded.ts';
import { TimeChart } from '../charts/time-chart.ts';
import { type RequestFilter, requestsLink } from '../page/console-route.ts';
import { formatCount, formatDay, formatHour, formatTick } from '../page/format.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { isCounted, refusalReportOf, refusalsOf, reportOf, seriesOf } from './request-counts.ts';
import { type Steps, stepsOf, timesOf, timeText, withRange } from './request-range.ts';

type Props = { api: Api; filter: RequestFilter; isLive: boolean; docsUrl: string };

type Counts = { steps: Steps; report: UsageReport; refusals: ReturnType<typeof refusalsOf> | undefined };

/** Sums of usage come some seconds after their requests, and change slowly. */
const lookEveryMs = 20_000;

/** Requests over the time of the list by how they ended, and below it how many were refused, which no list has. */
export function RequestChart({ api, filter, isLive, docsUrl }: Props) {
  const { account } = filter;
  const path = account === undefined ? '/billing/usage' : `/admin/accounts/${encodeURIComponent(account)}/usage`;
  const loaded = useLoaded<Counts>(
    async (signal) => {
      const now = Date.now() / 1_000;
      const range = timesOf(filter, now);
      const steps = stepsOf(range, now);
      const refused = refusalReportOf(range, now);
      const [report, refusals] = await Promise.all([
        api.call<UsageReport>(`${path}?${reportOf(steps, filter)}`, { signal }),
        refused && api.call<UsageReport>(`${path}?${refused}`, { signal }),
      ]);
      return { steps, report, refusals: refusals && refusalsOf(refusals) };
    },
    [requestsLink(filter)],
  );
  usePolled(loaded, { everyMs: lookEveryMs, active: isLive });
  return h(LoadedView<Counts>, {
    loaded,
    what: 'the counts of your requests',
    lines: 10,
    children: ({ steps, report, refusals }) => [
      isCounted(filter, steps)
        ? h(Histogram, { steps, report, filter })
        : h('p', { class: 'quiet' }, 'There is no chart of requests with these filters: the sums do not contain them.'),
      refusals !== undefined && h(RefusedLine, { ...refusals, docsUrl }),
    ],
  });
}

function Histogram({ steps, report, filter }: Pick<Counts, 'steps' | 'report'> & { filter: RequestFilter }) {
  const { unit, times, stepSeconds } = steps;
  const at = (index: number) => {
    const start = times[index] ?? 0;
    window.location.hash = requestsLink(withRange(filter, { start, end: start + stepSeconds }));
  };
  return h(TimeChart, {
    title: unit === 'hour' ? 'Requests by result, each hour' : 'Requests by result, each day (UTC)',
    times,
    stepSeconds,
    series: seriesOf(steps, report.data, filter),
    kind: 'bars',
    format: formatTick,
    formatTime: (seconds) => (unit === 'hour' ? formatHour(seconds) : formatDay(timeText(seconds).slice(0, 10))),
    formatValue: (count) => `${formatCount(count)} ${count === 1 ? 'request' : 'requests'}`,
    open: { label: `to list this ${unit}`, at },
  });
}

type RefusedProps = ReturnType<typeof refusalsOf> & { docsUrl: string };

function RefusedLine({ refused, words, docsUrl }: RefusedProps) {
  if (refused === 0) return null;
  return h(
    'p',
    { class: 'quiet refused-line' },
    `Refused requests are not listed. In these hours: ${formatCount(refused)} (${words}). `,
    h('a', { href: `${docsUrl}/errors` }, 'What these codes mean'),
  );
}
