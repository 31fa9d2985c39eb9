import { Cluster, type Redis as SingleRedis } from 'ioredis';
import type { Log } from '../process/log.ts';
import { reasonOf, serversIn } from '../process/start-error.ts';

type Redis = SingleRedis | Cluster;

/** The setting that has the URL of a connection. */
export type RedisSetting = 'REDIS_URL' | 'REPLY_REDIS_URL';

/** What Redis answers to a wrong user, password or number of a database. Waiting does not change it. */
const refused = /^(NOAUTH|WRONGPASS|NOPERM|ERR (invalid DB index|DB index is out of range|AUTH |invalid password))/;

const refusals = new WeakMap<Redis, string>();
/** Connections whose refusal is reported by what waits for them. */
const awaited = new WeakSet<Redis>();

/**
 * Why Redis refused this connection, in one line for the operator; undefined if it did not. After the refusal of a database, the library
 * would use the database 0.
 */
export function refusalOf(redis: Redis): string | undefined {
  awaited.add(redis);
  return refusals.get(redis);
}

type ObserveOptions = { url: string; setting?: RedisSetting | undefined; log: Log };

/** Logs lost and regained connections, once each: of a cluster, those to its nodes. */
export function observe<Connection extends Redis>(redis: Connection, observing: ObserveOptions): Connection {
  const { url, setting = 'REDIS_URL', log } = observing;
  const name = `${setting}: Redis at ${serversIn(url)}`;
  const away = new Set<string>();
  const noteRefusal = (error: Error) => {
    if (!refused.test(error.message)) return;
    refusals.set(redis, `${name} refuses the connection (${reasonOf(error)}). Correct ${setting}.`);
  };
  let wasReady = false;
  redis.once('ready', () => {
    wasReady = true;
  });
  const endsStart = (error: Error) => !wasReady && awaited.has(redis) && refused.test(error.message);
  if (!(redis instanceof Cluster)) {
    redis.on('error', noteRefusal);
    observeServer(redis, { log, name, endsStart, away, labels: {} });
    return redis;
  }
  redis.on('node error', noteRefusal);
  // The library makes a new connection to a node for each attempt.
  redis.on('+node', (node: SingleRedis) => {
    const { host, port } = node.options;
    observeServer(node, { log, name, endsStart, away, labels: { node: `${host}:${port}` } });
  });
  redis.on('error', (error) => log.debug({ err: error }, 'no node of the Redis Cluster is reachable; retrying'));
  return redis;
}

type ObservedServer = {
  log: Log;
  name: string;
  endsStart: (error: Error) => boolean;
  away: Set<string>;
  labels: { node?: string };
};

function observeServer(redis: SingleRedis, { log, name, endsStart, away, labels }: ObservedServer): void {
  const { node = '' } = labels;
  redis.on('connect', () => gatherWrites(redis.stream));
  redis.on('error', (error) => {
    if (endsStart(error)) return;
    if (!away.has(node))
      log.warn(labels, `${name} cannot be reached (${reasonOf(error)}); retrying. Start it, or correct the setting`);
    away.add(node);
  });
  redis.on('ready', () => {
    if (away.delete(node)) log.info(labels, 'Redis is reachable again');
  });
}

/**
 * Sends all commands of one turn of the event loop with one system call, mostly as one packet: under load, a system call per command costs
 * this process and Redis more than the command does. No command waits longer than the turn takes
 * (decisions.md#commands-of-one-turn-in-one-write).
 */
function gatherWrites(stream: SingleRedis['stream']): void {
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

const gathering: (() => void)[] = [];
const writing: (() => void)[] = [];
let isScheduled = false;

/**
 * Runs a task at the end of this turn of the event loop, after its events are handled. `gather` tasks run first and issue the last commands
 * of the turn; `write` tasks then send all commands together.
 */
export function atEndOfTurn(task: () => void, step: 'gather' | 'write'): void {
  (step === 'gather' ? gathering : writing).push(task);
  if (isScheduled) return;
  isScheduled = true;
  setImmediate(endTurn);
}

function endTurn(): void {
  isScheduled = false;
  for (const task of gathering.splice(0)) task();
  for (const task of writing.splice(0)) task();
}
