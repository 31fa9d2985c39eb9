import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { StartError } from '../../shared/process/start-error.ts';
import { onDiskVariable } from './on-disk-variable.ts';

export type LogLine = { level?: string; msg?: string; port?: number; [field: string]: unknown };

/** One running ingress or worker, and its logs. */
export interface ServiceProcess {
  readonly pid: number;
  /** What it runs. */
  readonly command: string;
  readonly logs: readonly LogLine[];
  /** Everything written to standard error. */
  readonly errors: () => string;
  readonly exited: Promise<number | null>;
  /** Resolves with the first line that matches, past or future. */
  line(fits: (line: LogLine) => boolean): Promise<LogLine>;
  kill(signal: NodeJS.Signals): void;
  /** Asks the process to end and waits until it has ended. */
  stop(): Promise<void>;
}

const preloads = ['./end-with-parent.ts', ...(process.env[onDiskVariable] ? ['./without-disk-sync.ts'] : [])].flatMap(
  (path) => ['--import', fileURLToPath(new URL(path, import.meta.url))],
);
const ownRoot = fileURLToPath(new URL('../..', import.meta.url));
/** With a compile cache, a process of a stack starts in a third less time. */
const compileCache = process.env.NODE_COMPILE_CACHE ?? join(ownRoot, 'node_modules/.cache/compile');
const linesKept = 50_000;
const stopWithinMs = 45_000;

/** No process of a stack outlives the one that started it. If that one is killed, end-with-parent.ts ends them. */
const running = new Set<Pick<ServiceProcess, 'kill'>>();
process.once('exit', () => {
  for (const each of running) each.kill('SIGKILL');
});

type Options = {
  side: 'ingress' | 'workers';
  env: Record<string, string>;
  /** The folder of the code. Default: this project. */
  root?: string | undefined;
  /** Whether Node restarts it each time a file of its side or of `shared` changes. */
  watch?: boolean | undefined;
  /** Called with each log line as it is written. A stack on a terminal shows some of them. */
  onLine?: (line: LogLine) => void;
};

/** Starts `ingress/main.ts` or `workers/main.ts` under the present Node, configured only by its environment. */
export function startServiceProcess({ side, env, root = ownRoot, watch = false, onLine }: Options): ServiceProcess {
  const watchFlags = watch ? ['--watch', '--watch-preserve-output', `--watch-path=${side}`, '--watch-path=shared'] : [];
  const child = spawn(process.execPath, [...watchFlags, ...preloads, `${side}/main.ts`], {
    cwd: root,
    env: { PATH: process.env.PATH ?? '', NODE_COMPILE_CACHE: compileCache, ...env },
    stdio: 'pipe',
    detached: watch, // a process group for the watching process and the one that it starts
  });
  if (watch) child.stderr.pipe(process.stderr); // errors of the last change
  const logs: LogLine[] = [];
  const waiting = new Set<(line: LogLine) => void>();
  let errors = '';
  child.stderr.on('data', (bytes: Buffer) => {
    errors = (errors + bytes.toString()).slice(-100_000);
  });
  createInterface({ input: child.stdout }).on('line', (text) => {
    const line = parseLine(text);
    logs.push(line);
    if (logs.length > linesKept) logs.shift();
    onLine?.(line);
    for (const take of waiting) take(line);
  });
  const exited = once(child, 'exit').then(([code]) => code as number | null);
  const kill = (signal: NodeJS.Signals) => (watch ? killGroup(child, signal) : child.kill(signal));
  const started: ServiceProcess = {
    pid: child.pid ?? 0,
    command: `${side}/main.ts`,
    logs,
    errors: () => errors,
    exited,
    kill,
    line: (fits) => lineThatFits({ side, fits, logs, waiting, exited, errors: () => errors }),
    async stop() {
      kill('SIGCONT');
      kill('SIGTERM');
      const late = setTimeout(kill, stopWithinMs, 'SIGKILL');
      await exited;
      clearTimeout(late);
    },
  };
  running.add(started);
  void exited.then(() => running.delete(started));
  return started;
}

/** The watching process passes on SIGTERM, but not SIGKILL: its child would remain. */
function killGroup({ pid, exitCode, signalCode }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid !== undefined && exitCode === null && signalCode === null) process.kill(-pid, signal);
}

type Search = {
  side: string;
  fits: (line: LogLine) => boolean;
  logs: readonly LogLine[];
  waiting: Set<(line: LogLine) => void>;
  exited: Promise<number | null>;
  errors: () => string;
};

function lineThatFits({ side, fits, logs, waiting, exited, errors }: Search): Promise<LogLine> {
  const found = logs.find(fits);
  if (found !== undefined) return Promise.resolve(found);
  return new Promise((resolve, reject) => {
    const take = (line: LogLine) => {
      if (!fits(line)) return;
      waiting.delete(take);
      resolve(line);
    };
    waiting.add(take);
    void exited.then((code) =>
      reject(new StartError(`${side}/main.ts ended with ${code}: ${lastWords(logs, errors())}`)),
    );
  });
}

/** Why a process has ended, in one line: its standard error without stack traces, or else its last message. */
export function lastWords(logs: readonly LogLine[], errors: string): string {
  const { msg = '', err } = logs.findLast(({ level }) => level === 'fatal') ?? logs.at(-1) ?? {};
  const { message = '' } = (err ?? {}) as { message?: string }; // pino's form of an error
  const lines = errors.split('\n').filter((line) => line.trim() !== '' && !/^\s+(at |\^)/.test(line));
  const words = lines.length > 0 ? lines : [msg, message].filter(Boolean);
  return words
    .map((line) => line.trim())
    .join(' ')
    .slice(0, 1_000);
}

function parseLine(text: string): LogLine {
  try {
    return JSON.parse(text) as LogLine; // a line of our own log
  } catch {
    return { msg: text };
  }
}
