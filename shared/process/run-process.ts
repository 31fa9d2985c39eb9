import { ConfigError } from './config.ts';
import { createLog, type Log } from './log.ts';
import { shutdownSignal } from './shutdown.ts';

type Life<Config> = {
  name: 'ingress' | 'worker';
  readConfig: () => Config;
  /** Everything from the first connection to the last: returns when the process has nothing left to do. */
  run: (parts: { config: Config; log: Log; shutdown: AbortSignal }) => Promise<void>;
};

/** After the grace: for what is told to give up to do so, and for connections to close. */
const lastMs = 9_000;

/** The life of one process: its settings or a list of what is wrong with them, its work, its end. */
export async function runProcess<Config extends { logLevel: string; shutdownGraceMs: number }>({
  name,
  readConfig,
  run,
}: Life<Config>) {
  const config = readConfigOrExit(readConfig);
  const log = createLog({ level: config.logLevel, process: name });
  const shutdown = shutdownSignal();
  shutdown.addEventListener('abort', () => {
    setTimeout(() => {
      log.error({}, 'something did not close in time; this process ends all the same');
      process.exit(1);
    }, config.shutdownGraceMs + lastMs).unref();
  });
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'an error that nobody caught; this process ends');
    process.exit(1);
  });
  try {
    await run({ config, log, shutdown });
    log.info({}, 'stopped');
  } catch (error) {
    // A shutdown while the process still waited for a dependency ends that wait.
    if (!shutdown.aborted) log.fatal({ err: error }, 'this process cannot go on');
    process.exit(shutdown.aborted ? 0 : 1);
  }
  process.exit(0);
}

function readConfigOrExit<Config>(readConfig: () => Config): Config {
  try {
    return readConfig();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  }
}
