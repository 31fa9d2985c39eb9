import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { MongoClient } from 'mongodb';
import { patiently } from '../../../shared/store/sqlite/sqlite-calls.ts';
import { findPrimary } from '../mongodb/mongo-home.ts';
import { databaseUrl, type MongoServer, type NoMongo, urlThrough } from '../mongodb/start-mongo.ts';
import { startTcpProxy } from '../tcp-proxy.ts';

/** A store that can be disconnected from the service: `url` is the service's connection, `directUrl` the test's own. */
export type StoreHome = { url: string; directUrl: string; cut(): Promise<void>; restore(): void };

export async function openSqliteHome(parts: AsyncDisposableStack): Promise<StoreHome> {
  const folder = await mkdtemp(join(tmpdir(), 'truth-'));
  parts.defer(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, 'store.sqlite');
  const lock = new DatabaseSync(file);
  parts.defer(() => lock.close());
  return {
    url: `sqlite:${file}`,
    directUrl: `sqlite:${file}`,
    // Readers continue. Every writer needs this lock.
    cut: () => patiently(() => lock.exec('BEGIN IMMEDIATE')),
    restore: () => lock.exec('ROLLBACK'),
  };
}

export async function openMongoHome(
  parts: AsyncDisposableStack,
  mongo: MongoServer | NoMongo,
  name: string,
): Promise<StoreHome> {
  if ('reason' in mongo) throw new Error(mongo.reason);
  parts.use(mongo);
  const directUrl = databaseUrl(mongo.url, `${name}_${process.pid}`);
  await using client = new MongoClient(directUrl);
  const proxy = parts.use(await startTcpProxy(await findPrimary(client), 'pass'));
  return {
    url: urlThrough(proxy.port, directUrl),
    directUrl,
    cut: async () => proxy.become('black hole'),
    restore: () => proxy.become('pass'),
  };
}
