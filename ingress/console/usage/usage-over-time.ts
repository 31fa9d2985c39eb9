import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { UsageReport } from '../../usage/usage-report.ts';
import { TimeChart } from '../charts/time-chart.ts';
import { type RequestFilter, requestsLink } from '../page/console-route.ts';
import { Choice } from '../page/fields.ts';
import { formatCost, formatCount, formatDay, formatHour, formatTick } from '../page/format.ts';
import { isOfHours, stepsOfRange } from './usage-range.ts';
import { type Measure, measures, type Part, partSeries } from './usage-series.ts';

type Props = {
  /** By time and the part. */
  report: UsageReport;
  part: Part;
  nameOf: (value: string | null) => string;
  /** Whose requests a click lists. Nothing if there is no such list. */
  requestsOf: RequestFilter | undefined;
};

/** Cost, tokens or requests over the range, by parts. */
export function UsageOverTime({ report, part, nameOf, requestsOf }: Props) {
  const { currency } = report;
  const [wanted, choose] = useState<Measure>(currency === undefined ? 'chargedTokens' : 'cost');
  const measure = wanted === 'cost' && currency === undefined ? 'chargedTokens' : wanted;
  const { cost: _, ...withoutCost } = measures;
  const options: Partial<Record<Measure, string>> = currency === undefined ? withoutCost : measures;
  const isHourly = isOfHours(report);
  const { times, stepSeconds } = stepsOfRange(report);
  const listed = (index: number) => {
    const start = times[index] ?? 0;
    const [from, to] = [start, start + stepSeconds].map((time) => new Date(time * 1_000).toISOString());
    window.location.hash = requestsLink({ ...requestsOf, ...(from && { start: from }), ...(to && { end: to }) });
  };
  return h(
    TimeChart,
    {
      title: `${measures[measure]} by ${part}, each ${isHourly ? 'hour' : 'day (UTC)'}`,
      times,
      stepSeconds,
      series: partSeries({ times, stepSeconds, rows: report.data, part, measure, nameOf }),
      kind: 'bars',
      format: (value) => (measure === 'cost' ? costTick(value, currency ?? '') : formatTick(value)),
      formatTime: (seconds) =>
        isHourly ? formatHour(seconds) : formatDay(new Date(seconds * 1_000).toISOString().slice(0, 10)),
      formatValue: (value) => formatValue(value, measure, currency),
      ...(requestsOf && { open: { label: `to list the requests of this ${isHourly ? 'hour' : 'day'}`, at: listed } }),
    },
    h(Choice<Measure>, { legend: 'Show', options: options as Record<Measure, string>, chosen: measure, choose }), // those it has
  );
}

/** The currency is beside the axis once. */
function costTick(value: number, currency: string): string {
  return value === 0 ? `0 ${currency}` : value.toLocaleString('en', { maximumFractionDigits: value < 0.1 ? 4 : 2 });
}

function formatValue(value: number, measure: Measure, currency = ''): string {
  if (measure === 'cost') return formatCost(value, currency);
  return `${formatCount(value)} ${measure === 'requests' ? 'requests' : 'tokens'}`;
}
