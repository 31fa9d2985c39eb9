import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { temporarilyUnavailable } from '../errors.ts';
import type { Log } from '../process/log.ts';
import { atEndOfTurn } from './end-of-turn.ts';

/** A call that a client waits on fails after this long. */
const requestTimeoutMs = 1_000;
/** A connection gone silent is replaced after this long: else calls fail until TCP gives it up, many minutes later. */
const requestSocketTimeoutMs = 3_000;
/** The same for work: BullMQ's idle wait (4 s) and a stream read must fit in. */
const workSocketTimeoutMs = 6_000;

const common = {
  connectTimeout: 2_000,
  keepAlive: 10_000,
  // Full jitter below a second: a Redis that returns is used again at once, and not by everybody in the same millisecond.
  retryStrategy: (attempt: number) => Math.random() * Math.min(1_000, 50 * 2 ** attempt),
  // It has become a replica: whoever is the primary now is found by connecting anew. What it has refused is not sent again.
  reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
};

/**
 * For whoever a client waits on: a call fails within a second when Redis is away, frozen or silent, and is never sent
 * twice. A call that timed out may still be executed later, so whatever it does must be idempotent or carry a deadline.
 */
export function connectForRequests(url: string, log: Log): Redis {
  return observe(
    withDeadlines(
      new Redis(url, {
        ...common,
        maxRetriesPerRequest: 0,
        enableOfflineQueue: false,
        socketTimeout: requestSocketTimeoutMs,
      }),
    ),
    log,
  );
}

/**
 * The library's own `commandTimeout` also fails calls whose answer came while this process was held up, because timers run before
 * sockets are read. Here the sockets are read first.
 */
function withDeadlines(redis: Redis): Redis {
  const send = redis.sendCommand.bind(redis);
  redis.sendCommand = (command, stream) => {
    const { resolve, reject } = command;
    const late = setTimeout(setImmediate, requestTimeoutMs, () => command.reject(new Error('Command timed out')));
    command.resolve = (answer) => {
      clearTimeout(late);
      resolve(answer);
    };
    command.reject = (error) => {
      clearTimeout(late);
      reject(error);
    };
    return send(command, stream);
  };
  return redis;
}

/**
 * For work that outlives an outage: a call waits until Redis is back and may then be applied twice, so whatever it does
 * is idempotent; only what a replica refuses fails. BullMQ's workers need this kind, or they record finished jobs as failed
 * after an outage.
 */
export function connectForWork(url: string, log: Log): Redis {
  return observe(new Redis(url, { ...common, maxRetriesPerRequest: null, socketTimeout: workSocketTimeoutMs }), log);
}

function observe(redis: Redis, log: Log): Redis {
  let away = false;
  redis.on('connect', () => gatherWrites(redis.stream));
  redis.on('error', (error) => {
    if (!away) log.warn({ err: error }, 'Redis cannot be reached; trying again');
    away = true;
  });
  redis.on('ready', () => {
    if (away) log.info({}, 'Redis is back');
    away = false;
  });
  return redis;
}

/**
 * What is sent within one turn of the event loop leaves by one system call, and mostly arrives as one packet: under load a call
 * for each command costs this process and Redis more than the command does. Nothing waits for longer than the turn takes.
 */
function gatherWrites(stream: Redis['stream']): void {
  const write = stream.write.bind(stream);
  const writeLater = (command: string | Uint8Array) => {
    if (stream.writableCorked === 0) {
      stream.cork();
      atEndOfTurn(() => stream.uncork(), 'write');
    }
    return write(command);
  };
  stream.write = writeLater as typeof stream.write; // the library gives it nothing but commands
}

type Waiting = { signal: AbortSignal; log: Log };

const askAgainMs = 1_000;

/**
 * Waits until all of these can be used, and checks that none is a cluster's, and that the first, which holds the queues, keeps what
 * it is given. Only the first has to allow `INFO`: another one that does not is warned of. `memoryBytes` is what the first may use,
 * 0 if it does not say.
 */
export async function waitForRedis(
  connections: readonly [Redis, ...Redis[]],
  waiting: Waiting,
): Promise<{ memoryBytes: number }> {
  const infos = await Promise.all(
    connections.map((redis, index) => waitForInfo(redis, { ...waiting, isRequired: index === 0 })),
  );
  for (const info of infos) refuseClusterNode(info);
  const [info = ''] = infos;
  checkDurability(info, waiting.log);
  return { memoryBytes: readMemory(info) };
}

/** Empty if the user of this connection may not run `INFO` and it is not required. */
async function waitForInfo(redis: Redis, waiting: Waiting & { isRequired: boolean }): Promise<string> {
  const { signal, log, isRequired } = waiting;
  while (true) {
    await waitUntilReady(redis, signal);
    try {
      return await redis.info();
    } catch (error) {
      const mayNot = error instanceof Error && error.message.startsWith('NOPERM');
      if (mayNot && !isRequired) {
        log.warn(
          { err: error },
          'A Redis user may not run INFO, which shows whether Redis is a cluster. Grant it +info',
        );
        return '';
      }
      const message = mayNot
        ? 'The Redis user of this process may not run INFO, which shows whether Redis keeps its data. Grant it +info; waiting'
        : 'Redis was lost again while the process started; waiting for it';
      log.warn({ err: error }, message);
      await sleep(askAgainMs, undefined, { signal });
    }
  }
}

/** Waits, for as long as it takes, until this connection can be used; ends early only by `signal`. */
export async function waitUntilReady(redis: Redis, signal: AbortSignal): Promise<void> {
  while (redis.status !== 'ready') await sleep(50, undefined, { signal });
}

/** Keys that Redis reads in one command, during which it does nothing else. */
const keysAtOnce = 1_000;

/** The strings at these keys, in their order, by as few commands as there can be. */
export async function readStrings(redis: Redis, keys: readonly string[]): Promise<(string | null)[]> {
  const portions = Array.from({ length: Math.ceil(keys.length / keysAtOnce) }, (_, index) => index * keysAtOnce);
  return (await Promise.all(portions.map((from) => redis.mget(keys.slice(from, from + keysAtOnce))))).flat();
}

/** A call that a client waits on: its failure is ours and passing, and whether it was executed is unknown. */
export async function redisUnavailable<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    throw temporarilyUnavailable(error);
  }
}

/** Its keys are on other nodes, too, and a connection to one of them learns that only from each call that fails. */
function refuseClusterNode(info: string): void {
  if (!/^cluster_enabled:1/m.test(info)) return;
  throw new Error(
    'This Redis is a node of a Redis Cluster. REDIS_URL and REPLY_REDIS_URL each need a Redis that is none.',
  );
}

/** In bytes: what a Redis of this `INFO` may use, which is all memory of its machine if it has no limit. */
function readMemory(info: string): number {
  const numberOf = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
  return numberOf('maxmemory') || numberOf('total_system_memory');
}

/**
 * Refuses a Redis that may throw away what it was given: a queue, a limit or a usage event evicted under memory pressure
 * would be lost without a trace. Warns of one that keeps nothing on disk.
 */
function checkDurability(info: string, log: Log): void {
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1];
  if (policy !== undefined && policy !== 'noeviction') {
    throw new Error(`Redis has maxmemory-policy ${policy}; it must be noeviction, or queued requests can be evicted.`);
  }
  if (/^aof_enabled:0/m.test(info)) {
    log.warn({}, 'Redis has no append-only file: what is queued or not yet stored is lost when it restarts');
  }
}

/**
 * One Lua script as a function of its keys and arguments, loaded once per connection and again after a Redis restart. Without
 * `numberOfKeys` it takes any number of them.
 */
export function loadScript(redis: Redis, script: { name: string; lua: string; numberOfKeys?: number }) {
  const { name, lua, numberOfKeys } = script;
  redis.defineCommand(name, { lua, ...(numberOfKeys !== undefined && { numberOfKeys }) });
  // defineCommand adds it; taken now, or another script that is loaded under this name would run in its place
  const run = (redis as unknown as Record<string, (...values: string[]) => Promise<unknown>>)[name];
  if (run === undefined) throw new Error(`the script ${name} was not loaded`);
  return (keys: readonly string[], args: readonly (string | number)[]): Promise<unknown> => {
    const count = numberOfKeys === undefined ? [String(keys.length)] : [];
    return run.call(redis, ...count, ...keys, ...args.map(String));
  };
}
