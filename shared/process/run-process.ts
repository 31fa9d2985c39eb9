import { readFileSync } from 'node:fs';
import { shutdownSignal } from '../concurrency/shutdown.ts';
import { ConfigError } from './config.ts';
import { createLog, type Log, type LogFormat } from './log.ts';
import { serviceVersion } from './metrics.ts';
import { settingDefaults } from './settings.ts';
import { StartError } from './start-error.ts';

type Life<Config> = {
  name: ProcessName;
  readConfig: () => Config;
  /** The work of the process, from the first connection to the last. Returns when the process has nothing left to do. */
  run: (parts: { config: Config; log: Log; shutdown: AbortSignal }) => Promise<void>;
};

type StopTimes = { shutdownDelayMs?: number; shutdownGraceMs: number };

/** Time after the grace period: for aborted work to end, and for connections to close. */
const lastMs = 9_000;

/** Runs one process: reads its settings or prints their issues, runs its work, and exits. */
export async function runProcess<
  Config extends {
    log: { level: string; format: LogFormat };
    /** What is allowed, but probably a mistake. */
    warnings: readonly string[];
  } & StopTimes,
>({ name, readConfig, run }: Life<Config>) {
  if (answerArguments(name)) return;
  const config = readConfigOrExit(readConfig);
  const log = createLog({ ...config.log, process: name });
  const { warnings } = config;
  if (warnings.length > 0) log.warn({ warnings }, 'the configuration is valid, and has what is probably a mistake');
  const shutdown = shutdownSignal();
  shutdown.addEventListener('abort', () => {
    setTimeout(() => {
      log.error({}, 'a part did not close in time; this process exits anyway');
      process.exit(1);
    }, stopMsMax(config)).unref();
  });
  process.on('uncaughtException', (error) => {
    report(error, 'uncaught error; this process exits');
    process.exit(1);
  });
  try {
    await run({ config, log, shutdown });
    log.info({}, 'stopped');
  } catch (error) {
    // If the process still waited for a dependency, a shutdown ends that wait.
    if (!shutdown.aborted) report(error, 'fatal error; this process exits');
    process.exit(shutdown.aborted ? 0 : 1);
  }
  process.exit(0);

  /** A reason that the operator can remove is one line, like an issue of the settings. */
  function report(error: unknown, message: string): void {
    if (error instanceof StartError) process.stderr.write(`${error.message}\n`);
    else log.fatal({ err: error }, message);
  }
}

/** How long a process may take to stop, before it exits anyway. */
export function stopMsMax({ shutdownDelayMs = 0, shutdownGraceMs }: StopTimes): number {
  return shutdownDelayMs + shutdownGraceMs + lastMs;
}

/** Prints the help if that is asked for. Refuses any other argument, without its text, which could be a secret. False if there is none. */
function answerArguments(name: ProcessName): boolean {
  const given = process.argv.slice(2);
  if (given.length === 0) return false;
  if (given.length === 1 && given[0] === '--help') process.stdout.write(helpText(name));
  else {
    const hint = 'Its settings are variables of its environment, such as LOG_LEVEL=debug.';
    process.stderr.write(`The ${name} has no arguments except --help. ${hint}\n`);
    process.exitCode = 1;
  }
  return true;
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

type ProcessName = 'ingress' | 'worker';

const processes: Record<ProcessName, { file: string; work: string }> = {
  ingress: {
    file: 'ingress/main.ts',
    work: 'turns HTTP requests into jobs, and replies of workers into HTTP responses',
  },
  worker: { file: 'workers/main.ts', work: 'takes jobs from the queue, calls model servers, and sends replies' },
};

const page = 'ingress/documentation/configuration.md';

/** What `--help` prints: each setting of a process, with its default and the beginning of what the page says of it. */
export function helpText(name: ProcessName): string {
  const { file, work } = processes[name];
  const documented = settingsOnPage();
  const lines = [...settingDefaults[name]].map(([setting, text]) => {
    const { fallback = '', meaning = '' } = documented.get(setting) ?? {};
    const shown = text === '' ? fallback : text;
    return { isRequired: text === 'required', line: `  ${setting}${suffixOf(shown)}\n      ${meaning}\n` };
  });
  const linesOf = (isRequired: boolean) =>
    lines.flatMap((each) => (each.isRequired === isRequired ? each.line : [])).join('');
  return `The ${name} of inference-service ${serviceVersion()} ${work}.

  node --env-file=.env ${file}

Its settings are variables of its environment. .env.example is a template. An ingress serves the documentation at /docs;
${page} explains every setting, and the plan file.

Required:
${linesOf(true)}
Optional, with their defaults:
${linesOf(false)}`;
}

function suffixOf(text: string): string {
  return text === 'required' ? '' : ` (${text})`;
}

/**
 * The rows of the table of settings: a row can have several of them, with as many defaults. The meaning is its first sentence or clause.
 */
function settingsOnPage(): Map<string, { fallback: string; meaning: string }> {
  const text = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8');
  const rows = text.matchAll(/^\| (`[A-Z_]+`(?:, `[A-Z_]+`)*) \| \w+ \| ([^|]*) \| (.*) \|$/gm);
  return new Map(
    [...rows].flatMap(([, names = '', defaults = '', meaning = '']) => {
      const [first = ''] = plain(meaning).split(/[;.] /);
      return plain(names)
        .split(', ')
        .map((name) => [name, { fallback: plain(defaults), meaning: first }] as const);
    }),
  );
}

/** Without the marks of Markdown, and without what is in parentheses. */
function plain(markdown: string): string {
  const text = markdown.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll('`', '');
  return text.replace(/ \([^)]*\)/g, '');
}
