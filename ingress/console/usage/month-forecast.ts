import type { UsageRow } from '../../usage/usage-report.ts';
import { daySeconds, dayText } from '../charts/steps.ts';

type Amount = (row: UsageRow) => number;

/** The days that a forecast needs: those of this month, and of the week before now. Times are in milliseconds since 1970. */
export function forecastDays(now: number): { start: string; end: string } {
  return { start: dayText(now / 1_000 - 31 * daySeconds), end: dayText(now / 1_000) };
}

/**
 * How much is used in a day: today and in the seven days before, or since the first day of use if it is later. A part of the first day
 * says little, so at least a day is counted. `days`: rows of `forecastDays`.
 */
export function dailyUse(days: readonly UsageRow[], amountOf: Amount, now: number): number {
  const today = startOf(dayText(now / 1_000));
  const first = Math.min(...days.filter((row) => amountOf(row) > 0).map(({ day = '' }) => startOf(day)));
  const from = Math.max(first, today - 7 * daySeconds * 1_000);
  const recent = days.filter(({ day = '' }) => startOf(day) >= from);
  const passedDays = Math.max(1, (now - from) / 1_000 / daySeconds);
  return recent.reduce((sum, row) => sum + amountOf(row), 0) / passedDays;
}

/** What this month comes to, if the rest of it is used as the last days were. */
export function monthForecast(days: readonly UsageRow[], amountOf: Amount, now: number): number {
  const date = new Date(now);
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
  const spent = days
    .filter(({ day = '' }) => startOf(day) >= Date.UTC(year, month))
    .reduce((sum, row) => sum + amountOf(row), 0);
  const daysLeft = (Date.UTC(year, month + 1) - now) / 1_000 / daySeconds;
  return spent + dailyUse(days, amountOf, now) * daysLeft;
}

function startOf(day: string): number {
  return Date.parse(`${day}T00:00:00Z`);
}

/** When an allowance is used up, if it is used on at this rate: milliseconds since 1970. Undefined if not before it is renewed. */
export function usedUpAt(
  { remaining, resetDate }: { remaining: number | null; resetDate: string },
  tokensPerDay: number,
  now: number,
): number | undefined {
  if (remaining === null || remaining === 0 || tokensPerDay === 0) return undefined;
  const at = now + (remaining / tokensPerDay) * daySeconds * 1_000;
  return at < startOf(resetDate) ? at : undefined;
}
