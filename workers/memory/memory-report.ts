import { outboxLengthFor } from '../../shared/redis/outbox-bound.ts';
import { type Estimate, type Part, sumOf } from './estimate-memory.ts';

/** The lines that the command prints. */
export function reportOf(estimate: Estimate): string[] {
  const { redis, redisBytes, maxmemoryBytes, outboxLength, thousandPerMinuteBytes, sqlite, mongodb } = estimate;
  const usual = outboxLengthFor(undefined, maxmemoryBytes);
  const isEnough = outboxLength <= usual;
  return [
    'Redis',
    ...redis.map(lineOf),
    lineOf({ what: 'sum', bytes: redisBytes }),
    lineOf({ what: 'maxmemory, at least', bytes: maxmemoryBytes }),
    `  OUTBOX_LENGTH_MAX: ${isEnough ? `leave it unset, the default of ${usual} is enough` : `at least ${outboxLength}`}`,
    '  An account on a plan without requests_per_minute and requests_per_day leaves',
    `  ${sizeOf(thousandPerMinuteBytes)} for each 1,000 requests that it sends in a minute.`,
    '',
    'Store'.padEnd(columns - 8) + 'SQLite'.padStart(8) + 'MongoDB'.padStart(12),
    ...sqlite.map((part, index) => `${lineOf(part)}${sizeOf(mongodb[index]?.bytes ?? 0).padStart(12)}`),
    `${lineOf({ what: 'sum', bytes: sumOf(sqlite) })}${sizeOf(sumOf(mongodb)).padStart(12)}`,
  ];
}

const columns = 48;

function lineOf({ what, bytes }: Part): string {
  const size = sizeOf(bytes);
  return `  ${what}`.padEnd(columns - size.length) + size;
}

function sizeOf(bytes: number): string {
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  let [size, unit] = [bytes / 1_024, 0];
  while (size >= 1_024 && unit < units.length - 1) [size, unit] = [size / 1_024, unit + 1];
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}
