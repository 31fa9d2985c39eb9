import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectForWork, type Redis } from '../../shared/redis/connections.ts';
import { databasesMax, type RedisServer, startRedis } from '../stack/redis-server.ts';
import { recordedLog } from './recorded-log.ts';

export interface RedisDatabase extends AsyncDisposable {
  url: string;
  /** A connection as workers use. */
  redis: Redis;
  /** Opens one more connection, closed with the others. */
  connect(): Redis;
}

export interface PrivateRedis extends RedisDatabase {
  server: RedisServer;
}

/** A private Redis server, for tests that kill, fill, freeze or configure it. */
export async function startPrivateRedis(): Promise<PrivateRedis> {
  const { server, close } = await startServer();
  return { server, ...connectTo(server.url, close) };
}

/** The server that the files of one process share while any of them uses it, and the numbers of its databases in use. */
let shared: { started: ReturnType<typeof startServer>; used: Set<number> } | undefined;

/** An empty database of a server that all tests of this process share. */
export async function openRedisDatabase(): Promise<RedisDatabase> {
  shared ??= { started: startServer(), used: new Set() };
  const { started, used } = shared;
  const number = Array.from({ length: databasesMax }, (_, index) => index).find((index) => !used.has(index));
  if (number === undefined) throw new Error(`all ${databasesMax} databases are in use`);
  used.add(number);
  const { server, close } = await started;
  const database = connectTo(`${server.url}/${number}`, async () => {
    used.delete(number);
    if (used.size > 0) return;
    shared = undefined;
    await close();
  });
  await database.redis.flushdb();
  return database;
}

function connectTo(url: string, close: () => Promise<void>): RedisDatabase {
  const owned = new AsyncDisposableStack();
  owned.defer(close);
  const connect = () => owned.adopt(connectForWork(url, recordedLog().log), (redis) => redis.disconnect());
  return { url, redis: connect(), connect, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function startServer(): Promise<{ server: RedisServer; close: () => Promise<void> }> {
  await using parts = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), 'inference-redis-'));
  parts.defer(() => rm(directory, { recursive: true, force: true }));
  const server = parts.use(await startRedis({ directory }));
  const owned = parts.move();
  return { server, close: () => owned.disposeAsync() };
}
