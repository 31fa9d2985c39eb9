import { once } from 'node:events';
import { ConfigError, type ReconcileConfig, readReconcileConfig } from '../../shared/process/config.ts';
import { createLog } from '../../shared/process/log.ts';
import { aborted, shutdownSignal } from '../../shared/process/shutdown.ts';
import { connectForRequests, type Redis } from '../../shared/redis/connections.ts';
import { refusalOf } from '../../shared/redis/observe-connection.ts';
import type { Store } from '../../shared/store/store.ts';
import { CannotReconcile, openExistingStore } from './open-existing-store.ts';
import { parseReconcileArguments, usageText } from './reconcile-arguments.ts';
import { progressOf, reportOf } from './reconcile-report.ts';
import { createReconcileUsage } from './reconcile-usage.ts';
import { isUnavailable } from './retry-unavailable.ts';

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
