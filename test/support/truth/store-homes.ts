import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { MongoClient } from 'mongodb';
import { patiently } from '../../../shared/store/sqlite-patience.ts';
import { findPrimary } from '../mongodb/mongo-home.ts';
import { startRelay } from '../mongodb/relay.ts';
import { databaseUrl, urlThrough } from '../mongodb/start-mongo.ts';

/** A store that can be taken from the service: `url` is the service's way to it, `directUrl` the test's own. */
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
    // Who reads goes on; every writer needs this lock.
    cut: () => patiently(() => lock.exec('BEGIN IMMEDIATE')),
    restore: () => lock.exec('ROLLBACK'),
  };
}

export async function openMongoHome(
  parts: AsyncDisposableStack,
  mongo: { url: string } & AsyncDisposable,
  name: string,
): Promise<StoreHome> {
  parts.use(mongo);
  const directUrl = databaseUrl(mongo.url, `${name}_${process.pid}`);
  await using client = new MongoClient(directUrl);
  const relay = parts.use(await startRelay(await findPrimary(client), 'pass'));
  return {
    url: urlThrough(relay.port, directUrl),
    directUrl,
    cut: async () => relay.become('silence'),
    restore: () => relay.become('pass'),
  };
}
