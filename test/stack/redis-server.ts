import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { untilEnded } from './earlier-process.ts';
import { findRedis, redisName } from './find-redis.ts';
import { freePort } from './free-port.ts';
import { guardProcess } from './guard-process.ts';

export { findRedis } from './find-redis.ts';

/** The default of Redis itself. */
export const databasesMax = 64;

/** A large append-only file takes a while to load. */
const startWithinMs = 30_000;

/** How long Redis may take to write and close its file after SIGTERM, before it is killed. */
const stopWithinMs = 10_000;

/** Between the choice of a free port and Redis's own bind another process may take it. */
const portAttempts = 5;

/** Redis writes its process id into it before it opens its data. */
const pidFile = 'redis.pid';

/** A frozen Redis handles no other signal. */
const endScript = 'kill -CONT "$1" && kill -TERM "$1"';

export interface RedisServer {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Stops Redis and waits until it has ended. Does nothing if it has ended already. */
  stop(): Promise<void>;
  /** Sends a signal. Waits for the end if the signal ends a process. */
  kill(signal: NodeJS.Signals): Promise<void>;
  /** Stops Redis if it runs, and starts it on the same port and data. */
  restart(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Further lines of its configuration: a setting that is given several times has several values, each with its words. */
export type RedisSettings = Record<string, string | readonly string[]>;

type Options = {
  directory: string;
  port?: number;
  settings?: RedisSettings;
  /** Starts a sentinel, which keeps its state in this file of `directory`. */
  sentinelFile?: string;
};

/**
 * A private Redis with the settings of production: append-only file, no eviction, reachable from this machine only. Resolves when it
 * answers. Its data and its log (`redis.log`) are in `directory`. It ends with this process, even if that is killed.
 */
export async function startRedis({ port = 0, settings = {}, ...options }: Options): Promise<RedisServer> {
  const { directory } = options;
  const program = await findRedis();
  await mkdir(directory, { recursive: true });
  const wanted = { ...options, program, settings };
  let running = await startOnFreePort({ ...wanted, port });
  const signalAndWait = async (signal: NodeJS.Signals) => {
    running.child.kill(signal);
    if (!['SIGSTOP', 'SIGCONT'].includes(signal)) await running.ended;
  };
  const stop = async () => {
    running.child.kill('SIGCONT'); // a frozen process handles no other signal
    running.child.kill('SIGTERM');
    const late = setTimeout(() => running.child.kill('SIGKILL'), stopWithinMs);
    await running.ended;
    clearTimeout(late);
  };
  return {
    url: `redis://127.0.0.1:${running.port}`,
    port: running.port,
    get pid() {
      return running.pid;
    },
    stop,
    kill: signalAndWait,
    async restart() {
      await stop();
      running = await start({ ...wanted, port: running.port });
    },
    [Symbol.asyncDispose]: stop,
  };
}

type Start = Readonly<Options & Required<Pick<Options, 'port' | 'settings'>> & { program: string }>;

type Running = Awaited<ReturnType<typeof start>>;

async function startOnFreePort(wanted: Start): Promise<Running> {
  if (wanted.port !== 0) return start(wanted);
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await start({ ...wanted, port: await freePort() });
    } catch (error) {
      if (attempt === portAttempts) throw error;
    }
  }
}

async function start({ program, ...wanted }: Start) {
  const { directory, port } = wanted;
  await untilUnused(directory);
  // Its own process group, so that Ctrl-C does not reach it: it is stopped after everything that still needs it.
  const child = spawn(program, argumentsFor(wanted), {
    argv0: redisName,
    detached: true,
    stdio: 'ignore',
  });
  const { pid = 0 } = child; // a spawned child has one
  guardProcess(child, endScript);
  await once(child, 'spawn');
  const ended = once(child, 'exit');
  try {
    await untilAnswering(child, port);
  } catch (error) {
    child.kill('SIGKILL');
    await ended;
    const log = await readFile(join(directory, 'redis.log'), 'utf8').catch(() => '');
    throw new Error(`Redis did not start on port ${port}: ${log.trimEnd().split('\n').slice(-3).join(' ')}`, {
      cause: error,
    });
  }
  return { child, pid, port, ended };
}

/** Two servers must not write the same files: waits for the one of a process that was killed, until its guard has ended it. */
async function untilUnused(directory: string): Promise<void> {
  const pid = Number(await readFile(join(directory, pidFile), 'utf8').catch(() => 0));
  if (pid > 0) await untilEnded({ pid, command: redisName });
}

function argumentsFor({ directory, port, settings, sentinelFile }: Omit<Start, 'program'>): string[] {
  const common = linesOf({ port: String(port), bind: '127.0.0.1' });
  // Each path as one argument: it can have spaces.
  common.push('--dir', directory, '--logfile', join(directory, 'redis.log'));
  if (sentinelFile !== undefined) return [join(directory, sentinelFile), '--sentinel', ...common];
  const own = linesOf({
    appendonly: 'yes',
    appendfsync: 'everysec',
    'maxmemory-policy': 'noeviction',
    databases: String(databasesMax),
    save: '',
    ...settings,
  });
  return [...common, '--pidfile', join(directory, pidFile), ...own];
}

function linesOf(settings: RedisSettings): string[] {
  const lines = Object.entries(settings).flatMap(([name, values]) => [values].flat().map((value) => ({ name, value })));
  return lines.flatMap(({ name, value }) => [`--${name}`, ...value.split(' ')]);
}

/** Waits until this very process answers: if the port was taken in the meantime, another Redis would answer. */
async function untilAnswering(child: ChildProcess, port: number): Promise<void> {
  const deadline = Date.now() + startWithinMs;
  while (Date.now() < deadline) {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error('Redis ended at once');
    if (await answers(port, child.pid)) return;
    await sleep(20);
  }
  throw new Error(`no answer within ${startWithinMs} ms`);
}

async function answers(port: number, pid: number | undefined): Promise<boolean> {
  const redis = new Redis({ port, host: '127.0.0.1', lazyConnect: true, retryStrategy: null, commandTimeout: 1_000 });
  redis.on('error', () => undefined); // the failed command says the same
  try {
    const [pong, info] = await Promise.all([redis.ping(), redis.info('server')]);
    return pong === 'PONG' && info.includes(`process_id:${pid}\r\n`);
  } catch {
    return false;
  } finally {
    redis.disconnect();
  }
}
