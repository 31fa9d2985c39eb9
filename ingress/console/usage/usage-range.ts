import { daySeconds, hourSeconds, stepsBetween } from '../charts/steps.ts';
import { formatChange } from '../page/format.ts';

/** Days (`YYYY-MM-DD`) or hours (`YYYY-MM-DDTHH`), UTC; both are included. */
export type UsageRange = { start: string; end: string };

/** The ranges that can be chosen, and their labels. */
export const periods = {
  'last-24-hours': '24 hours',
  yesterday: 'Yesterday',
  'last-7': '7 days',
  'last-30': '30 days',
  'last-90': '90 days',
  'this-month': 'This month',
  'last-month': 'Last month',
  own: 'Other days',
} as const;
export type Period = keyof typeof periods;

const [hourMs, dayMs] = [hourSeconds * 1_000, daySeconds * 1_000];
const dayLength = 10;

/** The range of a period up to `hour`, which is the present one. */
export function rangeOf(period: Exclude<Period, 'own'>, hour: string): UsageRange {
  const today = hour.slice(0, dayLength);
  const firstOfMonth = `${today.slice(0, 7)}-01`;
  if (period === 'last-24-hours') return { start: later(hour, -23), end: hour };
  if (period === 'this-month') return { start: firstOfMonth, end: today };
  if (period === 'yesterday') return { start: later(today, -1), end: later(today, -1) };
  if (period === 'last-month') {
    const end = later(firstOfMonth, -1);
    return { start: `${end.slice(0, 7)}-01`, end };
  }
  return { start: later(today, 1 - Number(period.slice('last-'.length))), end: today };
}

export function isOfHours({ start }: Pick<UsageRange, 'start'>): boolean {
  return start.length > dayLength;
}

/** How many days or hours. */
export function lengthOf(range: UsageRange): number {
  return (msOf(range.end) - msOf(range.start)) / stepMs(range) + 1;
}

/** Its days or hours. */
export function stepsOfRange(range: UsageRange): { times: number[]; stepSeconds: number } {
  return stepsBetween(msOf(range.start) / 1_000, msOf(range.end) / 1_000, stepMs(range) / 1_000);
}

/** The same time in hours. */
export function hoursOf({ start, end }: UsageRange): UsageRange {
  return { start: start.padEnd(13, 'T00'), end: end.padEnd(13, 'T23') };
}

/** Whether there are hours of this range: they are kept for some days, and a report has at most `daysMax` of them. */
export function hasHours({ start, end }: UsageRange, { hour, daysMax }: { hour: string; daysMax: number }): boolean {
  const isKept = msOf(start) > msOf(hour) - keptDays * dayMs;
  return isKept && lengthOf(hoursOf({ start, end })) <= daysMax * 24;
}

const keptDays = 62;

/**
 * The time of the same length directly before. A range that contains the present hour is not over: of the earlier one, only as much counts,
 * if there are hours of it.
 */
export function rangeBefore(range: UsageRange, options: { hour: string; daysMax: number }): UsageRange {
  const length = lengthOf(range);
  const before = { start: later(range.start, -length), end: later(range.start, -1) };
  const isRunning =
    !isOfHours(range) && msOf(range.end) <= msOf(options.hour) && range.end >= options.hour.slice(0, 10);
  if (!isRunning) return before;
  const cut = { start: hoursOf(before).start, end: later(options.hour, -length * 24) };
  return hasHours(cut, options) ? cut : before;
}

/** `count` days or hours later. */
function later(time: string, count: number): string {
  const at = new Date(msOf(time) + count * stepMs({ start: time }));
  return at.toISOString().slice(0, time.length);
}

function stepMs(range: Pick<UsageRange, 'start'>): number {
  return isOfHours(range) ? hourMs : dayMs;
}

function msOf(time: string): number {
  return Date.parse(time.length > dayLength ? `${time}:00Z` : time);
}

/** The difference of two amounts in words: `+12 %`. */
export function changeOf(now: number, before: number): string {
  if (now === 0 && before > 0) return 'no usage yet';
  return formatChange(now, before) ?? 'no earlier usage';
}
