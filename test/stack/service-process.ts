import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export type LogLine = { level?: string; msg?: string; port?: number; [field: string]: unknown };

/** One running ingress or worker, and its logs. */
export interface ServiceProcess {
  readonly pid: number;
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

const ownRoot = fileURLToPath(new URL('../..', import.meta.url));
/** With a compile cache, a process of a stack starts in a third less time. */
const compileCache = process.env.NODE_COMPILE_CACHE ?? join(ownRoot, 'node_modules/.cache/compile');
const linesKept = 50_000;
const stopWithinMs = 45_000;

/** No process of a stack outlives the one that started it. */
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
  const child = spawn(process.execPath, [...watchFlags, `${side}/main.ts`], {
    cwd: root,
    env: { PATH: process.env.PATH ?? '', NODE_COMPILE_CACHE: compileCache, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
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
    logs,
    errors: () => errors,
    exited,
    kill,
    line: (fits) => lineThatFits({ fits, logs, waiting, exited, errors: () => errors }),
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
  fits: (line: LogLine) => boolean;
  logs: readonly LogLine[];
  waiting: Set<(line: LogLine) => void>;
  exited: Promise<number | null>;
  errors: () => string;
};

function lineThatFits({ fits, logs, waiting, exited, errors }: Search): Promise<LogLine> {
  const found = logs.find(fits);
  if (found !== undefined) return Promise.resolve(found);
  return new Promise((resolve, reject) => {
    const take = (line: LogLine) => {
      if (!fits(line)) return;
      waiting.delete(take);
      resolve(line);
    };
    waiting.add(take);
    void exited.then((code) => {
      const last = logs.slice(-3).map((line) => JSON.stringify(line));
      reject(new Error([`the process ended with ${code} before this line`, ...last, errors()].join('\n')));
    });
  });
}

function parseLine(text: string): LogLine {
  try {
    return JSON.parse(text) as LogLine; // a line of our own log
  } catch {
    return { msg: text };
  }
}
