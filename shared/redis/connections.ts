import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { temporarilyUnavailable } from '../errors.ts';
import type { Log } from '../process/log.ts';
import { atEndOfTurn } from './end-of-turn.ts';

/** Timeout of a call that a client waits for. */
const requestTimeoutMs = 1_000;
/** A silent connection is replaced after this long. Otherwise calls would fail until TCP closes it, many minutes later. */
const requestSocketTimeoutMs = 3_000;
/** The same for work connections: longer than BullMQ's idle wait (4 s) and a stream read. */
const workSocketTimeoutMs = 6_000;

const common = {
  connectTimeout: 2_000,
  keepAlive: 10_000,
  // Full jitter below a second: a Redis that returns is used again quickly, but not by all processes in the same millisecond.
  retryStrategy: (attempt: number) => Math.random() * Math.min(1_000, 50 * 2 ** attempt),
  // This Redis has become a replica. A new connection finds the current primary. The refused command is not sent again.
  reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
};

/**
 * Connects for calls that a client waits for: a call fails within a second if Redis is unavailable, frozen or silent, and is never sent
 * twice. A call that timed out may still run later, so it must be idempotent or carry a deadline (contract.md#m7-two-kinds-of-connections).
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
 * The library's own `commandTimeout` also fails calls whose answer arrived while this process was blocked, because timers run before
 * sockets are read. Here the sockets are read first (decisions.md#deadlines-that-read-first).
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
 * Connects for work that outlives an outage: a call waits until Redis is available again and may then be applied twice, so it must be
 * idempotent. Only commands that a replica refuses fail. BullMQ's workers need this kind; otherwise they record finished jobs as failed
 * after an outage (contract.md#m7-two-kinds-of-connections, decisions.md#workers-wait-for-redis).
 */
export function connectForWork(url: string, log: Log): Redis {
  return observe(new Redis(url, { ...common, maxRetriesPerRequest: null, socketTimeout: workSocketTimeoutMs }), log);
}

function observe(redis: Redis, log: Log): Redis {
  let away = false;
  redis.on('connect', () => gatherWrites(redis.stream));
  redis.on('error', (error) => {
    if (!away) log.warn({ err: error }, 'Redis is unreachable; retrying');
    away = true;
  });
  redis.on('ready', () => {
    if (away) log.info({}, 'Redis is reachable again');
    away = false;
  });
  return redis;
}

/**
 * Sends all commands of one turn of the event loop with one system call, mostly as one packet: under load, a system call per command costs
 * this process and Redis more than the command does. No command waits longer than the turn takes
 * (decisions.md#commands-of-one-turn-in-one-write).
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
  stream.write = writeLater as typeof stream.write; // the library writes only commands
}

type Waiting = { signal: AbortSignal; log: Log };

const askAgainMs = 1_000;

/**
 * Waits until all of these connections are ready. Checks that none is to a cluster, and that the first Redis, which holds the queues, is
 * durable. Only the first must allow `INFO`; a warning is logged for any other that does not. `memoryBytes` is the memory that the first
 * Redis may use, 0 if it does not report that.
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

/** Returns an empty text if the user of this connection may not run `INFO` and it is not required. */
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
        ? 'The Redis user of this process may not run INFO, which shows whether Redis is durable. Grant it +info; waiting'
        : 'The connection to Redis was lost while the process started; waiting for Redis';
      log.warn({ err: error }, message);
      await sleep(askAgainMs, undefined, { signal });
    }
  }
}

/** Waits, without a time limit, until this connection is ready. Only `signal` ends the wait early. */
export async function waitUntilReady(redis: Redis, signal: AbortSignal): Promise<void> {
  while (redis.status !== 'ready') await sleep(50, undefined, { signal });
}

/** Number of keys per command. Redis does nothing else while it reads them. */
const keysAtOnce = 1_000;

/** Reads the strings at these keys, in the same order, with as few commands as possible. */
export async function readStrings(redis: Redis, keys: readonly string[]): Promise<(string | null)[]> {
  const portions = Array.from({ length: Math.ceil(keys.length / keysAtOnce) }, (_, index) => index * keysAtOnce);
  return (await Promise.all(portions.map((from) => redis.mget(keys.slice(from, from + keysAtOnce))))).flat();
}

/** Awaits a call that a client waits for. Its failure is a temporary server error, and it is unknown whether the call was executed. */
export async function redisUnavailable<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    throw temporarilyUnavailable(error);
  }
}

/** A cluster node holds only some of the keys, and a connection to it learns that only when a call fails. */
function refuseClusterNode(info: string): void {
  if (!/^cluster_enabled:1/m.test(info)) return;
  throw new Error(
    'This Redis is a node of a Redis Cluster. REDIS_URL and REPLY_REDIS_URL each need a Redis that is not in a cluster.',
  );
}

/** Returns the memory that a Redis with this `INFO` may use, in bytes: all memory of its machine if it has no limit. */
function readMemory(info: string): number {
  const numberOf = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
  return numberOf('maxmemory') || numberOf('total_system_memory');
}

/**
 * Refuses a Redis that may evict data: a queue, limit counters or a usage event evicted under memory pressure would be lost silently. Logs
 * a warning if it keeps nothing on disk (contract.md#m8-required-settings).
 */
function checkDurability(info: string, log: Log): void {
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1];
  if (policy !== undefined && policy !== 'noeviction') {
    throw new Error(`Redis has maxmemory-policy ${policy}; it must be noeviction, or queued requests can be evicted.`);
  }
  if (/^aof_enabled:0/m.test(info)) {
    log.warn({}, 'Redis has no append-only file: queued requests and usage not yet stored are lost when it restarts');
  }
}

/**
 * Returns one Lua script as a function of its keys and arguments. It is loaded once per connection and again after a Redis restart. Without
 * `numberOfKeys` it takes any number of keys.
 */
export function loadScript(redis: Redis, script: { name: string; lua: string; numberOfKeys?: number }) {
  const { name, lua, numberOfKeys } = script;
  redis.defineCommand(name, { lua, ...(numberOfKeys !== undefined && { numberOfKeys }) });
  // defineCommand adds this method. It is read now: otherwise another script loaded under the same name would run in its place.
  const run = (redis as unknown as Record<string, (...values: string[]) => Promise<unknown>>)[name];
  if (run === undefined) throw new Error(`the script ${name} was not loaded`);
  return (keys: readonly string[], args: readonly (string | number)[]): Promise<unknown> => {
    const count = numberOfKeys === undefined ? [String(keys.length)] : [];
    return run.call(redis, ...count, ...keys, ...args.map(String));
  };
}
