import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Redis } from 'ioredis';
import { connectForWork } from '../../shared/redis.ts';
import { type RedisServer, startRedis } from '../stack/redis-server.ts';
import { recordedLog } from './recorded-log.ts';

export interface PrivateRedis extends AsyncDisposable {
  server: RedisServer;
  redis: Redis;
  /** One more connection, closed with the others. */
  connect(): Redis;
}

/** A Redis of this test file's own, with a connection as workers have them. */
export async function startPrivateRedis(): Promise<PrivateRedis> {
  await using parts = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), 'inference-redis-'));
  parts.defer(() => rm(directory, { recursive: true, force: true }));
  const server = parts.use(await startRedis({ directory }));
  const owned = parts.move();
  const connect = () => owned.adopt(connectForWork(server.url, recordedLog().log), (redis) => redis.disconnect());
  return { server, redis: connect(), connect, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
