import { daySeconds, hourSeconds, stepAt, stepsBetween } from '../charts/steps.ts';
import type { RequestFilter } from '../page/console-route.ts';

/** Times in seconds since 1970; the end is not included. */
export type TimeRange = { start: number; end: number };

const [hour, day] = [hourSeconds, daySeconds];

/** Ranges that end now, and their labels. */
const lengths = { '1h': hour, '24h': day, '7d': 7 * day, '30d': 30 * day };
export type RangeName = keyof typeof lengths | 'own';
export const rangeNames: Readonly<Record<RangeName, string>> = {
  '1h': 'Last hour',
  '24h': '24 hours',
  '7d': '7 days',
  '30d': '30 days',
  own: 'Other times',
};

/** A link that names other filters and no time is meant to find something, so it looks further back. */
export function rangeNameOf({ range, start, end, account: _, ...others }: RequestFilter): RangeName {
  if (start !== undefined || end !== undefined) return 'own';
  if (range !== undefined && Object.hasOwn(lengths, range)) return range as RangeName; // `hasOwn` has checked it
  return Object.keys(others).length === 0 ? '24h' : '30d';
}

/** The times that are listed at `now`. One that cannot be read is that of the last 24 hours. */
export function timesOf(filter: RequestFilter, now: number): TimeRange {
  const name = rangeNameOf(filter);
  if (name !== 'own') return { start: now - lengths[name], end: now };
  const end = secondsOf(filter.end) ?? now;
  return { start: secondsOf(filter.start) ?? end - day, end };
}

function secondsOf(time: string | undefined): number | undefined {
  const ms = Date.parse(time ?? '');
  return Number.isNaN(ms) ? undefined : ms / 1_000;
}

/** As the API takes it: `2026-03-01T14:00:00Z`. */
export function timeText(seconds: number): string {
  return `${new Date(seconds * 1_000).toISOString().slice(0, 19)}Z`;
}

/** Hours are kept for 62 days; a longer chart would also have too many bars. */
const hoursShownMax = 8 * 24;
/** Of a short range, the hours around it are shown, to go to them. */
const hoursShownMin = 24;

/** The steps of a chart. */
export type Steps = { unit: 'hour' | 'day'; times: number[]; stepSeconds: number };

/** The hours of a range, or its days (UTC) if it is long. */
export function stepsOf({ start, end }: TimeRange, now: number): Steps {
  const isLong = end - start > hoursShownMax * hour;
  const step = isLong ? day : hour;
  const last = Math.max(stepAt(start, step), Math.ceil(end / step - 1) * step);
  if (isLong) return { unit: 'day', ...stepsBetween(start, last, step) };
  const missing = Math.max(0, hoursShownMin - ((last - stepAt(start, hour)) / hour + 1));
  const latest = Math.max(last, Math.min(last + Math.floor(missing / 2) * hour, stepAt(now, hour)));
  return { unit: 'hour', ...stepsBetween(Math.min(start, latest - (hoursShownMin - 1) * hour), latest, hour) };
}

/** The minute around a time. */
export function minuteOf(seconds: number): TimeRange {
  const start = Math.floor(seconds / 60) * 60;
  return { start, end: start + 60 };
}

/** The filter with this range, named or of its own. */
export function withRange(filter: RequestFilter, range: keyof typeof lengths | TimeRange): RequestFilter {
  const { range: _range, start: _start, end: _end, ...others } = filter;
  if (typeof range === 'string') return { ...others, range };
  return { ...others, start: timeText(range.start), end: timeText(range.end) };
}
