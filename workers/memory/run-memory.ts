import { parseArgs } from 'node:util';
import { outboxLengthFor } from '../../shared/jobs/usage-outbox.ts';
import { type Demand, type Estimate, estimateMemory, type Part, sumOf } from './estimate-memory.ts';
import { itemBytes } from './item-bytes.ts';

/** The command `npm run memory`. */
export function runMemory(): void {
  const demand = parseMemoryArguments(process.argv.slice(2));
  if (demand === undefined) {
    process.stderr.write(usageText);
    process.exitCode = 2;
  } else {
    process.stdout.write(demand === 'help' ? usageText : `${reportOf(estimateMemory(demand, itemBytes)).join('\n')}\n`);
  }
}

/** Each option with what it means, and the value that it has if it is not set. */
const options: Readonly<Record<string, { of: keyof Demand; means: string; usual: number }>> = {
  accounts: { of: 'accounts', means: 'accounts that sent a request within two months', usual: 0 },
  devices: { of: 'devices', means: 'the same for devices', usual: 0 },
  'limited-keys': { of: 'limitedKeys', means: 'further keys with limits that were used within two days', usual: 0 },
  'requests-per-second': { of: 'requestsPerSecond', means: 'requests per second', usual: 0 },
  'body-kib': { of: 'bodyKib', means: 'mean size of a body, in KiB', usual: 4 },
  'idempotent-requests-per-second': {
    of: 'idempotentRequestsPerSecond',
    means: 'requests per second with an idempotency key',
    usual: 0,
  },
  'answer-kib': { of: 'answerKib', means: 'mean size of their answers, in KiB', usual: 4 },
  'waiting-seconds': { of: 'waitingSeconds', means: 'how long a request waits in its queue', usual: 1 },
  'running-seconds': { of: 'runningSeconds', means: 'how long its answer takes', usual: 10 },
  'deadline-seconds': { of: 'deadlineSeconds', means: '`request_ms` of the plan file, in seconds', usual: 600 },
  'store-away-hours': { of: 'storeAwayHours', means: 'how long the store may be unavailable', usual: 0 },
  'details-per-day': {
    of: 'detailsPerDay',
    means: 'models × keys × endpoints that an account uses in a day',
    usual: 2,
  },
  'batch-accounts': { of: 'batchAccounts', means: 'accounts with an open batch', usual: 0 },
};

export const usageText = `Usage: npm run --silent memory -- --accounts 10000 --requests-per-second 200

Estimates the memory of Redis, and what a month adds to the store, from measured sizes. Numbers may have decimals.

${Object.entries(options)
  .map(([name, { means, usual }]) => `  ${`--${name}`.padEnd(35)}${means} (${usual})`)
  .join('\n')}
  --help                             prints this text
`;

/** Returns the demand, `help`, or undefined if an argument is unknown or not a number of at least 0. */
export function parseMemoryArguments(args: readonly string[]): Demand | 'help' | undefined {
  const known = Object.fromEntries(Object.keys(options).map((name) => [name, { type: 'string' as const }]));
  try {
    const { values } = parseArgs({ args: [...args], options: { ...known, help: { type: 'boolean' } }, strict: true });
    const { help, ...set }: Record<string, unknown> = values;
    if (help === true) return 'help';
    const numbers = Object.entries(options).map(([name, { of, usual }]) => [of, numberOf(set[name] ?? usual)]);
    return Object.fromEntries(numbers) as Demand; // each field of it is an option
  } catch {
    return undefined;
  }
}

function numberOf(value: unknown): number {
  const number = value === '' ? Number.NaN : Number(value);
  if (!Number.isFinite(number) || number < 0) throw new Error(`not a number: ${value}`);
  return number;
}

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
