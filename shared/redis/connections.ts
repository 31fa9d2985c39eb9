import { Cluster, Command, type RedisOptions, SentinelConnector, Redis as SingleRedis } from 'ioredis';
import { z } from 'zod';
import { temporarilyUnavailable } from '../errors.ts';
import type { Log } from '../process/log.ts';
import { parseRedisUrl, type RedisAddress } from '../process/redis-url.ts';
import { connectCluster, groupByTag } from './cluster.ts';
import { observe, type RedisSetting } from './observe-connection.ts';

/** A connection to one Redis, directly or through Sentinel, or to all nodes of a Redis Cluster. */
export type Redis = SingleRedis | Cluster;

/** A silent connection is replaced after this long. Otherwise calls would fail until TCP closes it, many minutes later. */
const requestSocketTimeoutMs = 3_000;

/** The same for work connections: longer than BullMQ's idle wait (4 s) and a stream read. */
const workSocketTimeoutMs = 6_000;

// Full jitter below a second: a Redis that returns is used again quickly, but not by all processes in the same millisecond.
const retryStrategy = (attempt: number) => Math.random() * Math.min(1_000, 50 * 2 ** attempt);
// Without `disableClientInfo`, each connection would send `CLIENT SETINFO`, which needs a right of its own.
const ofConnection = { connectTimeout: 2_000, keepAlive: 10_000, disableClientInfo: true };
const common = {
  ...ofConnection,
  retryStrategy,
  // This Redis has become a replica. A new connection finds the current primary. The refused command is not sent again.
  reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
};

/**
 * Connects for calls that a client waits for: a call fails within a second if Redis is unavailable, frozen or silent. Without a cluster it
 * is never sent twice; in a cluster it is repeated within that second, or for four while its keys move to another node. A call that timed
 * out may still run later, so it must be idempotent or carry a deadline (contract.md#m7-two-kinds-of-connections).
 */
export function connectForRequests(url: string, log: Log, setting?: RedisSetting): Redis {
  const address = addressOf(url);
  const timeouts = { socketTimeout: requestSocketTimeoutMs, maxRetriesPerRequest: 0 };
  const redis =
    address.kind === 'cluster'
      ? connectCluster(address, {
          node: { ...ofConnection, ...timeouts },
          retryStrategy,
          waits: false,
          repeatMs: requestTimeoutMs,
          movingMs: movingTimeoutMs,
        })
      : connectOne(address, { ...common, ...timeouts, enableOfflineQueue: false });
  return observe(withDeadlines(redis), { url, log, setting });
}

/**
 * Connects for work that outlives an outage: a call waits until Redis is available again and may then be applied twice, so it must be
 * idempotent. Only commands that a replica refuses fail. BullMQ's workers need this kind; otherwise they record finished jobs as failed
 * after an outage (contract.md#m7-two-kinds-of-connections, decisions.md#workers-wait-for-redis).
 */
export function connectForWork(url: string, log: Log, setting?: RedisSetting): Redis {
  const address = addressOf(url);
  const timeouts = { socketTimeout: workSocketTimeoutMs, maxRetriesPerRequest: null };
  const redis =
    address.kind === 'cluster'
      ? connectCluster(address, {
          node: { ...ofConnection, ...timeouts },
          retryStrategy,
          repeatMs: Number.POSITIVE_INFINITY,
          waits: true,
        })
      : connectOne(address, { ...common, ...timeouts });
  return observe(redis, { url, log, setting });
}

function addressOf(url: string): RedisAddress {
  const address = parseRedisUrl(url);
  if (address === undefined) throw new Error('a Redis URL is wrong'); // the settings were checked
  return address;
}

type Options = Omit<RedisOptions, 'replyMapping'>;

function connectOne(address: Exclude<RedisAddress, { kind: 'cluster' }>, options: Options): SingleRedis {
  if (address.kind === 'single') return new SingleRedis(address.url, options);
  const { servers, master, database, username, password, sentinelUsername, sentinelPassword, tls } = address;
  return new SingleRedis({
    ...options,
    sentinels: [...servers],
    name: master,
    db: database,
    Connector: QuietSentinelConnector as unknown as NonNullable<RedisOptions['Connector']>,
    ...(username && { username }),
    ...(password && { password }),
    ...(sentinelUsername && { sentinelUsername }),
    ...(sentinelPassword && { sentinelPassword }),
    ...(tls && { tls: {}, sentinelTLS: {}, enableTLSForSentinelMode: true }),
    sentinelRetryStrategy: retryStrategy,
    sentinelCommandTimeout: requestTimeoutMs,
  });
}

/** As in the library, whose types call this method private. */
type ConnectSentinel = (server: unknown, options?: RedisOptions) => unknown;
type LibraryConnector = new (options: unknown) => { connectToSentinel: ConnectSentinel };

/** Sentinels get no `CLIENT SETINFO` either. The library has no option for its connections to them. */
class QuietSentinelConnector extends (SentinelConnector as unknown as LibraryConnector) {
  constructor(options: unknown) {
    super(options);
    const connect = this.connectToSentinel.bind(this);
    this.connectToSentinel = (server, more) => connect(server, { ...more, disableClientInfo: true });
  }
}

/** Timeout of a call that a client waits for. */
const requestTimeoutMs = 1_000;

/** The same while the slot of its keys moves to another node: a script cannot run until all of its keys have moved. */
const movingTimeoutMs = 4_000;

/**
 * The library's own `commandTimeout` also fails calls whose answer arrived while this process was blocked, because timers run before
 * sockets are read. Here the sockets are read first (decisions.md#deadlines-that-read-first).
 */
function withDeadlines<Connection extends SingleRedis | Cluster>(redis: Connection): Connection {
  const send: Send = redis.sendCommand.bind(redis);
  redis.sendCommand = (command: Command, stream?: never, node?: never) => {
    const { resolve, reject } = command;
    const fail = () => command.reject(new Error('Command timed out'));
    let late = setTimeout(setImmediate, requestTimeoutMs, fail);
    command.resolve = (answer) => {
      clearTimeout(late);
      resolve(answer);
    };
    command.reject = (error) => {
      clearTimeout(late);
      reject(error);
    };
    const answer = send(command, stream, node);
    if (redis.isCluster)
      onceMoving(command, () => {
        clearTimeout(late);
        late = setTimeout(setImmediate, movingTimeoutMs, fail);
      });
    return answer;
  };
  return redis;
}

type Send = (command: Command, stream?: never, node?: never) => unknown;

/** By now, the library's `reject` of a command in a cluster is the one that may send it again. */
function onceMoving(command: Command, onMoving: () => void): void {
  const { reject } = command;
  let isMoving = false;
  command.reject = (error) => {
    if (!isMoving && error.message.startsWith('TRYAGAIN')) {
      isMoving = true;
      onMoving();
    }
    reject(error);
  };
}

/** Number of keys per command. Redis does nothing else while it reads them. */
const keysAtOnce = 1_000;

/**
 * Reads the strings at these keys, in the same order, with as few commands as possible. In a cluster, undefined for those whose node does
 * not answer.
 */
export async function readStrings(redis: Redis, keys: readonly string[]): Promise<(string | null | undefined)[]> {
  const found = new Map<string, string | null>();
  const portions = inOneSlot(redis, keys).flatMap((group) => inPortions(group, keysAtOnce));
  const read = async (portion: string[]) => {
    const values = await ifAvailable(redis, redis.mget(portion));
    for (const [index, value] of values?.entries() ?? []) found.set(portion[index] ?? '', value);
  };
  await Promise.all(portions.map(read));
  return keys.map((key) => found.get(key));
}

/** The node of a cluster that has this key, as far as this connection knows; empty without a cluster. */
export function nodeOf(redis: Redis, key: string): string {
  if (!(redis instanceof Cluster)) return '';
  const [master = 'unknown'] = redis.slots[new Command('exists', [key]).getSlot() ?? 0] ?? [];
  return master;
}

/** The connections to the masters of a cluster, or the one connection: for commands that have no key. */
export function mastersOf(redis: Redis): SingleRedis[] {
  return redis instanceof Cluster ? redis.nodes('master') : [redis];
}

/** The addresses (`host:port`) of the masters that have slots, as far as this connection knows, also of those that are away. */
export function masterAddresses(cluster: Cluster): string[] {
  return [...new Set(cluster.slots.flatMap(([master]) => master ?? []))];
}

/** The connection to this master. Undefined after it was lost, until the library makes another one. */
export function masterAt(cluster: Cluster, address: string): SingleRedis | undefined {
  return cluster.nodes('master').find(({ options: { host, port } }) => `${host}:${port}` === address);
}

/** Awaits a call to one node. In a cluster, undefined if that node is unavailable, because others may be available. */
export async function ifAvailable<T>(redis: Redis, call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (redis.isCluster && isNodeUnavailable(error)) return undefined;
    throw error;
  }
}

/**
 * Answers of a node that is starting, has lost its master or its disk, runs a script for too long, or no longer has the slot. Any other
 * refusal, such as NOPERM, needs an operator.
 */
const unavailableAnswers = /^(ASK|BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|MOVED|NOREPLICAS|READONLY|TRYAGAIN)\b/;

/** Errors of the library and of sockets, by name. AggregateError: none of a host's addresses can be reached. */
const connectionErrors = new Set([
  ...['Error', 'AbortError', 'AggregateError', 'ClusterAllFailedError', 'MaxRetriesPerRequestError'],
]);

/** Whether a call failed because a node of a cluster is unavailable, not because the call is wrong or not permitted. */
function isNodeUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return error.name === 'ReplyError' ? unavailableAnswers.test(error.message) : connectionErrors.has(error.name);
}

/** Splits keys into groups that one command may use. Without a cluster, that is one group. */
export function inOneSlot(redis: Redis, keys: readonly string[]): string[][] {
  return redis.isCluster ? groupByTag(keys, (key) => key) : [[...keys]];
}

function inPortions<Item>(items: readonly Item[], size: number): Item[][] {
  const count = Math.ceil(items.length / size);
  return Array.from({ length: count }, (_, index) => items.slice(index * size, (index + 1) * size));
}

/** Awaits a call that a client waits for. Its failure is a temporary server error, and it is unknown whether the call was executed. */
export async function redisUnavailable<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    throw temporarilyUnavailable(error);
  }
}

const timeSchema = z.tuple([z.coerce.number(), z.coerce.number()]);

/**
 * Milliseconds of Redis's clock, the only clock that decisions use (contract.md#m4-one-clock, decisions.md#redis-as-the-only-clock). `key`:
 * the key whose times it is compared with. In a cluster, that key's node answers, because the clocks of nodes differ a little; without a
 * key, the first node that answers.
 */
export async function redisNow(redis: Redis, key?: string): Promise<number> {
  const isKeyed = redis.isCluster && key !== undefined;
  const answer = isKeyed ? await redis.eval("return redis.call('TIME')", 1, key) : await timeOfAny(redis);
  const [seconds, microseconds] = timeSchema.parse(answer);
  return seconds * 1_000 + Math.floor(microseconds / 1_000);
}

async function timeOfAny(redis: Redis): Promise<unknown> {
  if (!redis.isCluster) return redis.time();
  const nodes = mastersOf(redis);
  if (nodes.length === 0) throw new Error('no node of the Redis Cluster is connected');
  try {
    return await Promise.any(nodes.map((node) => node.time()));
  } catch (error) {
    throw error instanceof AggregateError ? error.errors[0] : error;
  }
}

async function existingOf(redis: Redis, keys: readonly string[]): Promise<readonly string[]> {
  const count = keys.length === 0 ? 0 : await redis.exists(...keys);
  if (count === 0 || count === keys.length) return keys.slice(0, count);
  const exist = await Promise.all(keys.map((key) => redis.exists(key)));
  return keys.filter((_, index) => exist[index] === 1);
}

/** Returns those of these keys that exist. One command is enough if all of them exist, or none; in a cluster, one for each slot. */
export async function existingKeys(redis: Redis, keys: readonly string[]): Promise<ReadonlySet<string>> {
  const found = await Promise.all(inOneSlot(redis, keys).map((group) => existingOf(redis, group)));
  return new Set(found.flat());
}

/** If clocks differ by more than this, nothing is removed permanently. */
const clocksApartMsMax = 86_400_000;

/** Redis's time. Undefined if this machine's clock differs by more than a day, because then the age of data is unknown. */
export async function agreedNow(redis: Redis, now: () => number = Date.now): Promise<number | undefined> {
  const nowMs = await redisNow(redis);
  return Math.abs(nowMs - now()) > clocksApartMsMax ? undefined : nowMs;
}
