import '../../shared/process/require-node-24.mjs';
import type { Redis } from 'ioredis';
import { ConfigError, type ReconcileConfig, readReconcileConfig } from '../../shared/process/config.ts';
import { createLog } from '../../shared/process/log.ts';
import { aborted, shutdownSignal } from '../../shared/process/shutdown.ts';
import { connectForRequests } from '../../shared/redis/connections.ts';
import type { Store } from '../../shared/store/store.ts';
import { CannotReconcile, openExistingStore } from './open-existing-store.ts';
import { parseReconcileArguments, usageText } from './reconcile-arguments.ts';
import { isUnavailable } from './reconcile-patience.ts';
import { progressOf, reportOf } from './reconcile-report.ts';
import { createReconcileUsage } from './reconcile-usage.ts';

const [nothingDiffers, somethingDiffers, notFoundOut] = [0, 1, 2];
/** Several calls of a store that does not answer, each of which takes seconds to fail. */
const patienceMs = 10_000;
const progressEveryMs = 1_000;

// A reader that has seen enough of the report (`| head`) is no reason for a stack trace.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => process.exit(notFoundOut));
process.exit(await main());

async function main(): Promise<number> {
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
  const log = createLog({ level: config.logLevel, process: 'reconcile', forTerminal: true });
  const store = parts.use(await openExistingStore(config.databaseUrl, log));
  const redis = parts.adopt(connectForRequests(config.redisUrl, log), (opened) => opened.disconnect());
  const { usageMonthsKept: monthsKept } = config;
  const reconcile = createReconcileUsage({ redis, store, monthsKept, repair, patienceMs, signal: shutdown });
  const tellProgress = () => process.stderr.write(`${progressOf(reconcile.progress())}\n`);
  parts.adopt(setInterval(tellProgress, progressEveryMs), clearInterval);
  try {
    const reconciled = await reconcile.run();
    tellProgress();
    process.stdout.write(`${reportOf(reconciled, repair).join('\n')}\n`);
    return reconciled.left.months === 0 ? nothingDiffers : somethingDiffers;
  } catch (error) {
    log.debug({ err: error }, 'the comparison failed');
    throw isUnavailable(error) ? new CannotReconcile(await sayWhatIsAway({ redis, store }), { cause: error }) : error;
  }
}

async function sayWhatIsAway({ redis, store }: { redis: Redis; store: Store }): Promise<string> {
  const [ofRedis, ofStore] = await Promise.allSettled([redis.ping(), store.ping()]);
  const away = [
    ...(ofRedis.status === 'rejected' ? ['Redis'] : []),
    ...(ofStore.status === 'rejected' ? ['the store'] : []),
  ];
  if (away.length === 0) return 'Redis or the store was away for too long, or usage moved too fast to be compared.';
  return `Cannot reach ${away.join(' and ')}; nothing can be said of drift.`;
}

function fail(message: string): number {
  process.stderr.write(message);
  return notFoundOut;
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}
