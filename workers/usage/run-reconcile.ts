import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { aborted, shutdownSignal } from '../../shared/concurrency/shutdown.ts';
import type { MonthTokens } from '../../shared/limits/seed.ts';
import { ConfigError, type ReconcileConfig, readReconcileConfig } from '../../shared/process/config.ts';
import { createLog, type Log } from '../../shared/process/log.ts';
import { openStore } from '../../shared/process/open-store.ts';
import { connectForRequests, type Redis } from '../../shared/redis/connections.ts';
import { refusalOf } from '../../shared/redis/observe-connection.ts';
import type { Store } from '../../shared/store/records/store.ts';
import type { UsageSum } from '../../shared/store/usage/usage-record.ts';
import { type Drift, isUnavailable, type MonthCheck, sumDiffers } from './reconcile-month.ts';
import { createReconcileUsage, type ReconcileReport } from './reconcile-usage.ts';

const [nothingDiffers, somethingDiffers, notFoundOut] = [0, 1, 2];
/** Time for several calls of a store that does not answer. Each of them takes seconds to fail. */
const unavailableMsMax = 10_000;
const progressEveryMs = 1_000;

/** The command `npm run reconcile`, until its process exits. */
export async function runReconcile(): Promise<never> {
  // A reader that closes the pipe early (`| head`) must not cause a stack trace.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => process.exit(notFoundOut));
  process.exit(await compare());
}

async function compare(): Promise<number> {
  const asked = parseReconcileArguments(process.argv.slice(2));
  if (asked === undefined) return fail(usageText);
  if (asked.help) {
    process.stdout.write(usageText);
    return nothingDiffers;
  }
  const shutdown = shutdownSignal();
  const stopped = aborted(shutdown).then(() => fail('Stopped before everything was compared.\n'));
  try {
    return await Promise.race([run({ config: readReconcileConfig(), repair: asked.repair, shutdown }), stopped]);
  } catch (error) {
    if (shutdown.aborted) return stopped;
    if (error instanceof ConfigError) return fail(`${error.message}\n`);
    return fail(error instanceof CannotReconcile ? `${error.message}\n` : `Failed (${nameOf(error)}).\n`);
  }
}

type Run = { config: ReconcileConfig; repair: boolean; shutdown: AbortSignal };

async function run({ config, repair, shutdown }: Run): Promise<number> {
  await using parts = new AsyncDisposableStack();
  const log = createLog({ ...config.log, process: 'reconcile', forTerminal: true });
  const store = parts.use(await openExistingStore(config.databaseUrl, log));
  const redis = parts.adopt(connectForRequests(config.redisUrl, log), (opened) => opened.disconnect());
  await requireAccepted(redis);
  const { usageMonthsKept: monthsKept } = config;
  const reconcile = createReconcileUsage({ redis, store, monthsKept, repair, unavailableMsMax, signal: shutdown });
  const printProgress = () => process.stderr.write(`${progressOf(reconcile.progress())}\n`);
  parts.adopt(setInterval(printProgress, progressEveryMs), clearInterval);
  try {
    const reconciled = await reconcile.run();
    printProgress();
    process.stdout.write(`${reportOf(reconciled, repair).join('\n')}\n`);
    return reconciled.left.months === 0 ? nothingDiffers : somethingDiffers;
  } catch (error) {
    log.debug({ err: error }, 'the comparison failed');
    throw isUnavailable(error)
      ? new CannotReconcile(await describeUnavailable({ redis, store }), { cause: error })
      : error;
  }
}

/** Throws if Redis refuses the connection. It may be away: then the comparison waits for it. */
async function requireAccepted(redis: Redis): Promise<void> {
  await Promise.race(['ready', 'close', 'end'].map((event) => once(redis, event))).catch(() => {}); // an error comes before one of them
  await redis.ping().catch(() => {}); // the number of the database was answered before
  const refusal = refusalOf(redis);
  if (refusal !== undefined) throw new CannotReconcile(refusal);
}

async function describeUnavailable({ redis, store }: { redis: Redis; store: Store }): Promise<string> {
  const [ofRedis, ofStore] = await Promise.allSettled([redis.ping(), store.ping()]);
  const unavailable = [
    ...(ofRedis.status === 'rejected' ? ['Redis'] : []),
    ...(ofStore.status === 'rejected' ? ['the store'] : []),
  ];
  if (unavailable.length === 0)
    return 'Redis or the store was unavailable for too long, or usage changed too fast to be compared.';
  return `Cannot reach ${unavailable.join(' and ')}; drift is unknown.`;
}

function fail(message: string): number {
  process.stderr.write(message);
  return notFoundOut;
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}

export const usageText = `Usage: npm run --silent reconcile [-- --repair] [-- --help]

Recomputes the usage of every account and month from the usage records, and compares it with the sums and the details (by day, model,
key and endpoint) in the store, and the sums with the counters in Redis for the current and the last month. The service may be in use meanwhile.

  --repair  repairs what differs, and compares it again
  --help    prints this text

Settings, from the environment: REDIS_URL, DATABASE_URL, PLAN_FILE, LOG_LEVEL, LOG_FORMAT.
Exit code: 0 if nothing differs (any more), 1 if something differs, 2 if the comparison failed.
`;

type ReconcileArguments = { repair: boolean; help: boolean };

/** Undefined if an argument is unknown. */
export function parseReconcileArguments(args: readonly string[]): ReconcileArguments | undefined {
  const options = { repair: { type: 'boolean', default: false }, help: { type: 'boolean', default: false } } as const;
  try {
    return { ...parseArgs({ args: [...args], options, strict: true, allowPositionals: false }).values };
  } catch {
    return undefined;
  }
}

/** The reason why the comparison cannot run. `message` is for the operator. It has no address, because that can hold a password. */
export class CannotReconcile extends Error {
  override readonly name = 'CannotReconcile';
}

/** Opens the store at this `DATABASE_URL`. A missing file is an error: it would be created, and an empty store has no drift. */
export async function openExistingStore(url: string, log: Log): Promise<Store> {
  const file = /^sqlite:(.+)$/.exec(url)?.[1];
  if (file !== undefined && !existsSync(resolve(file))) {
    throw new CannotReconcile('DATABASE_URL names a file that does not exist.');
  }
  try {
    return await openStore(url, { log });
  } catch (error) {
    throw new CannotReconcile(error instanceof Error ? error.message : 'The store cannot be opened.', { cause: error });
  }
}

/** The lines for standard output. The last line is the remaining drift. */
export function reportOf({ accounts, months, found, left, drifted }: ReconcileReport, repair: boolean): string[] {
  const more = found.months - drifted.length;
  return [
    `accounts checked: ${accounts}`,
    `months checked: ${months}`,
    ...drifted.map((month) => `  ${lineOf(month, repair)}`),
    ...(more > 0 ? [`  and ${more} more`] : []),
    ...(repair ? [`found: ${amountOf(found)}`] : []),
    `drift: ${amountOf(left)}`,
  ];
}

export function progressOf({ accounts, months, found }: ReconcileReport): string {
  return `checked ${months} months of ${accounts} accounts; ${found.months} differ`;
}

function amountOf({ tokens, months }: ReconcileReport['found']): string {
  return months === 0 ? '0' : `${tokens} tokens in ${months} account-months`;
}

function lineOf({ found, left }: Drift, repair: boolean): string {
  // As JSON, because a name from a sign-in token may contain control characters of a terminal.
  const name = `${JSON.stringify(found.account)} ${found.month}`;
  const outcome = left === undefined ? '; repaired' : '; not repaired';
  return `${name}: ${[sumText(found), ...counterText(found)].join('; ')}${repair ? outcome : ''}`;
}

function sumText(checked: MonthCheck): string {
  const { kept, recomputed, wrongDetails } = checked;
  const details = wrongDetails === 0 ? '' : `; ${wrongDetails} wrong details by day, model, key and endpoint`;
  if (!sumDiffers(checked)) return `the sum is correct (${countsText(kept)})${details}`;
  const isOnlyInKind = countsText(kept) === countsText(recomputed);
  const difference = isOnlyInKind ? ', different by kind' : '';
  return `the store has ${countsText(kept)}, recomputed ${countsText(recomputed)}${difference}${details}`;
}

function countsText(sum: UsageSum | undefined): string {
  return sum === undefined ? 'nothing' : `${sum.total.chargedTokens} tokens of ${sum.total.requests} requests`;
}

function counterText({ counter }: MonthCheck): string[] {
  if (counter === undefined) return ['Redis does not count it'];
  const { counted, expected } = counter;
  return [`Redis counts ${tokensText(counted)}, expected ${tokensText(expected)}`];
}

function tokensText({ chargedTokens, reservedTokens, overageTokens }: MonthTokens): string {
  return `${chargedTokens} charged, ${reservedTokens} reserved, ${overageTokens} overage`;
}
