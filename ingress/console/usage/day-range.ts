/** Days, UTC, as `YYYY-MM-DD`; both are included. */
export type DayRange = { start: string; end: string };

/** The ranges that can be chosen, and their labels. */
export type Period = 'this-month' | 'last-month' | 'last-7' | 'last-30' | 'last-90' | 'own';

export const periods: ReadonlyMap<Period, string> = new Map([
  ['this-month', 'This month'],
  ['last-month', 'Last month'],
  ['last-7', 'Last 7 days'],
  ['last-30', 'Last 30 days'],
  ['last-90', 'Last 90 days'],
  ['own', 'Other days'],
]);

const dayMs = 86_400_000;

/** The days of a period, up to `today`. */
export function daysOf(period: Exclude<Period, 'own'>, today: string): DayRange {
  const firstOfMonth = `${today.slice(0, 7)}-01`;
  if (period === 'this-month') return { start: firstOfMonth, end: today };
  if (period === 'last-month') {
    const end = dayAfter(firstOfMonth, -1);
    return { start: `${end.slice(0, 7)}-01`, end };
  }
  return { start: dayAfter(today, 1 - Number(period.slice('last-'.length))), end: today };
}

/** As many days, directly before these. */
export function daysBefore(range: DayRange): DayRange {
  return { start: dayAfter(range.start, -lengthOf(range)), end: dayAfter(range.start, -1) };
}

export function lengthOf({ start, end }: DayRange): number {
  return (Date.parse(end) - Date.parse(start)) / dayMs + 1;
}

export function allDaysOf(range: DayRange): string[] {
  return Array.from({ length: lengthOf(range) }, (_, index) => dayAfter(range.start, index));
}

function dayAfter(day: string, days: number): string {
  return new Date(Date.parse(day) + days * dayMs).toISOString().slice(0, 10);
}

/** The difference of two amounts in percent: `+12 %`. Undefined if there was nothing before. */
export function changeOf(now: number, before: number): string | undefined {
  if (before === 0) return undefined;
  const percent = Math.round((100 * (now - before)) / before);
  if (percent === 0) return '±0 %';
  return percent > 0 ? `+${percent} %` : `−${-percent} %`;
}
