import type { UsageReport, UsageRow } from '../../usage/usage-report.ts';
import type { ChartSeries } from '../charts/draw-chart.ts';
import { outcomeSeries, sumsBy } from '../charts/steps.ts';
import type { RequestFilter } from '../page/console-route.ts';
import { formatCount } from '../page/format.ts';
import { isServiceError, refusedModel } from './code-words.ts';
import { type Steps, type TimeRange, timeText } from './request-range.ts';

/** The dimensions of a report that requests can be filtered by, as both name them. */
const dimensions = { model: 'model', key: 'key_id', endpoint: 'endpoint' } as const;

/** A report of these steps, by what the filter needs. */
export function reportOf({ unit, times, stepSeconds }: Steps, filter: RequestFilter): URLSearchParams {
  const groups = (['model', 'key', 'endpoint'] as const).filter(
    // By model, refused requests are a row of their own: they are not those of the list.
    (name) => filter[dimensions[name]] !== undefined || (name === 'model' && codeIn(filter) !== undefined),
  );
  const length = unit === 'hour' ? 13 : 10;
  const [first, last] = [times[0] ?? 0, times.at(-1) ?? 0];
  return new URLSearchParams({
    start: timeText(first).slice(0, length),
    end: timeText(last + stepSeconds - 1).slice(0, length),
    group_by: [unit, ...groups].join(),
  });
}

/** Refusals are of no model, so this report tells them from failures. Undefined for a range that is too long to have hours. */
export function refusalReportOf({ start, end }: TimeRange, now: number): URLSearchParams | undefined {
  if (start < now - hoursKeptSeconds) return undefined;
  return new URLSearchParams({
    start: timeText(start).slice(0, 13),
    end: timeText(end - 1).slice(0, 13),
    group_by: 'model',
  });
}

const hoursKeptSeconds = 61 * 86_400;

/** The code that a filter names, or the outcome in place of one. */
function codeIn({ code, outcome }: RequestFilter): string | undefined {
  return code ?? (outcome === 'lost' ? outcome : undefined);
}

/** Whether reports can count what this filter lists. They know no durations and batches, and codes only of hours. */
export function isCounted(filter: RequestFilter, { unit }: Pick<Steps, 'unit'>): boolean {
  if (filter.slower_than_ms !== undefined || filter.batch_id !== undefined) return false;
  return unit === 'hour' || codeIn(filter) === undefined;
}

/**
 * Requests of each step by how they ended, and of a filter only those that it lists. Refused ones are only in reports of hours, and of no
 * model or endpoint.
 */
export function seriesOf(steps: Steps, rows: readonly UsageRow[], filter: RequestFilter): ChartSeries[] {
  const wanted = rows.filter((row) =>
    Object.entries(dimensions).every(([name, field]) => {
      const value = filter[field];
      return value === undefined || row[name as keyof typeof dimensions] === value; // its keys
    }),
  );
  const code = codeIn(filter);
  if (code !== undefined) {
    const listed = sumsBy(wanted, steps, ({ model, errors = {} }) =>
      model === refusedModel ? 0 : (errors[code] ?? 0),
    );
    return [{ name: code, values: listed, tone: isServiceError(code) ? 'bad' : 'warning' }];
  }
  const series = outcomeSeries(wanted, steps);
  if (filter.outcome === undefined) return series;
  // Reports count lost ones as failed, and the list does not.
  const failed = sumsBy(wanted, steps, (row) => row.failed - (row.errors?.lost ?? 0));
  return filter.outcome === 'failed'
    ? [{ name: 'failed', values: failed, tone: 'bad' }]
    : series.filter(({ name }) => name === filter.outcome);
}

/** How many requests of a range were refused, by their codes: the most frequent first. */
export function refusalsOf({ data }: Pick<UsageReport, 'data'>): { refused: number; words: string } {
  const row = data.find(({ model, refused = 0 }) => model === refusedModel && refused > 0);
  const codes = Object.entries(row?.errors ?? {}).toSorted(([, one], [, other]) => other - one);
  return {
    refused: row?.refused ?? 0,
    words: codes.map(([code, count]) => `${formatCount(count)} × ${code}`).join(', '),
  };
}
