const whole = new Intl.NumberFormat('en');
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const dateAndTime = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' });
const dayAlone = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone: 'UTC' });
const money = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const secondAndTime = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
const hourAndDay = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
});
const monthAlone = new Intl.DateTimeFormat('en-GB', { month: 'long', year: 'numeric', timeZone: 'UTC' });

/** `1,234,567`. */
export function formatCount(count: number): string {
  return whole.format(count);
}

/** `1.2M`. */
export function formatShort(count: number): string {
  return short.format(count);
}

/** Of an axis that counts: a part of one has no label. */
export function formatTick(count: number): string {
  return Number.isInteger(count) ? formatShort(count) : '';
}

/** `81 %`; a dash if there is no whole. */
export function formatShare(part: number, all: number): string {
  return all === 0 ? '–' : `${Math.round((100 * part) / all)} %`;
}

/** `2.1 %` of a share from 0 to 1. */
export function formatPercent(share: number): string {
  const percent = 100 * share;
  return `${percent > 0 && percent < 9.95 ? percent.toFixed(1) : Math.round(percent)} %`;
}

/** The change from one number to another: `+12 %`. Undefined if there was nothing before. */
export function formatChange(now: number, before: number): string | undefined {
  if (before === 0) return undefined;
  const percent = Math.round((100 * (now - before)) / before);
  if (percent === 0) return '±0 %';
  return percent > 0 ? `+${percent} %` : `−${-percent} %`;
}

/** A limit of a plan; null is no limit. */
export function formatLimit(limit: number | null): string {
  return limit === null ? 'no limit' : whole.format(limit);
}

/** In the time zone of the user. `time` is ISO 8601 text or seconds since 1970. */
export function formatTime(time: string | number): string {
  return dateAndTime.format(typeof time === 'number' ? time * 1000 : new Date(time));
}

/** `YYYY-MM-DD`, UTC. */
export function formatDay(day: string): string {
  return dayAlone.format(new Date(`${day}T00:00:00Z`));
}

/** `YYYY-MM`. */
export function formatMonth(month: string): string {
  return monthAlone.format(new Date(`${month}-01T00:00:00Z`));
}

/** An exact cost, rounded to be read: `1.50 USD`. A smaller one than the least shown is not shown as 0. */
export function formatCost(cost: string | number, currency: string): string {
  const value = Number(cost);
  if (value > 0 && value < leastCost) return `< ${money.format(leastCost)} ${currency}`;
  return `${money.format(value)} ${currency}`;
}

const leastCost = 0.01;

/** With seconds, in the time zone of the user. */
export function formatSecond(time: string | number): string {
  return secondAndTime.format(typeof time === 'number' ? time * 1000 : new Date(time));
}

/** `27 Nov, 14:00`, in the time zone of the user. */
export function formatHour(seconds: number): string {
  return hourAndDay.format(seconds * 1000);
}

/** How long ago, in its largest unit: `12 s ago`. A time that is only just ahead of this clock is `now`. */
export function formatAgo(ms: number): string {
  if (ms < 1_000) return 'now';
  const [largest] = formatRest(ms).match(/^\d+ \S+/) ?? [''];
  return `${largest} ago`;
}

/** A time that is left, in its two largest units: `6 d 23 h`, `59 min 59 s`. */
export function formatRest(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3_600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'min'],
    [seconds % 60, 's'],
  ] as const;
  const first = parts.findIndex(([count]) => count > 0);
  const shown = first === -1 ? parts.slice(-1) : parts.slice(first, first + 2);
  return shown.map(([count, unit]) => `${count} ${unit}`).join(' ');
}

/** A duration: `420 ms`, `1.25 s`, `2 min 5 s`. */
export function formatMs(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 9_995) return `${(ms / 1_000).toFixed(2)} s`;
  return ms < 59_950 ? `${(ms / 1_000).toFixed(1)} s` : formatRest(ms);
}

/** `12.3 MiB`. */
export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} bytes`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(units.length, Math.floor(Math.log2(bytes) / 10));
  return `${(bytes / 1024 ** power).toFixed(1)} ${units[power - 1]}`;
}
