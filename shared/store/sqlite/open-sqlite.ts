import { closeSync, openSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { ownerOnly } from '../files/owner-only.ts';
import { patiently } from './sqlite-patience.ts';
import { additions, migrations } from './sqlite-schema.ts';

/** Covers another process's commit that is just ending; it stops this process, so all longer waiting is `patiently`'s. */
const busyTimeoutMs = 2;

/** 64 MiB of log: only where the thread does not get to it. */
const autocheckpointPages = 16_384;
/** What is left of a log that has been taken into the file, once it begins anew: its length then says how much is in it. */
const logBytesKept = 1_048_576;

const existing = z.object({ code: z.literal('EEXIST') });
const journalModeSchema = z.object({ journal_mode: z.string() });
const userVersionSchema = z.object({ user_version: z.int() });

/**
 * The database in this file, created with its folder where missing, readable by the process's user alone, and brought to the
 * present version; processes that open it at once wait for each other. Throws an error for the operator, which names the file.
 */
export async function openSqlite(file: string): Promise<DatabaseSync> {
  const path = resolve(file);
  let database: DatabaseSync | undefined;
  try {
    await mkdir(dirname(path), { recursive: true, mode: ownerOnly.folder });
    createForOwner(path);
    const opened = await patiently(() => new DatabaseSync(path, { timeout: busyTimeoutMs }));
    database = opened;
    await patiently(() => knownVersion(opened)); // first of all: a database that is not ours to use is left as it is
    await patiently(() => setDurability(opened));
    await patiently(() => migrate(opened));
    for (const addition of additions) await patiently(() => opened.exec(addition));
    return opened;
  } catch (error) {
    database?.close();
    throw new Error(`The database ${path} cannot be opened: ${error instanceof Error ? error.message : error}`, {
      cause: error,
    });
  }
}

/**
 * SQLite creates a database as the umask has it, and the files beside it (-wal, -shm) with the database's own mode. Only a new file
 * is opened here, and without a turn of the event loop: closing it would end the locks that this process has on the database.
 */
function createForOwner(path: string): void {
  try {
    closeSync(openSync(path, 'wx', ownerOnly.file));
  } catch (error) {
    if (!existing.safeParse(error).success) throw error;
  }
}

/** Writes of others wait from the start of `work` to its end; when it throws, nothing of it remains. */
export function inTransaction<T>(database: DatabaseSync, work: () => T): T {
  database.exec('BEGIN IMMEDIATE'); // a transaction that reads first and then writes could not be retried: SQLITE_BUSY_SNAPSHOT
  try {
    const result = work();
    database.exec('COMMIT');
    return result;
  } catch (error) {
    if (database.isTransaction) database.exec('ROLLBACK'); // a full disk, for one, has rolled back already
    throw error;
  }
}

/**
 * WAL lets the ingress read while a worker writes. A commit by itself does not wait for the disk; whoever is told of it does
 * (lasting-commits.ts), because the full key is shown once: a commit that a power cut takes back would leave its owner with a
 * key that never was. The log is taken into the file by a thread, long before SQLite would do so within a commit.
 */
function setDurability(database: DatabaseSync): void {
  const mode = journalModeSchema.parse(database.prepare('PRAGMA journal_mode = WAL').get()).journal_mode;
  if (mode !== 'wal') throw new Error(`its file system does not allow a write-ahead log (journal mode ${mode})`);
  database.exec('PRAGMA synchronous = NORMAL');
  database.exec(`PRAGMA wal_autocheckpoint = ${autocheckpointPages}; PRAGMA journal_size_limit = ${logBytesKept}`);
}

/** The version is read under the lock: whoever held it before us may have migrated. */
function migrate(database: DatabaseSync): void {
  if (knownVersion(database) === migrations.length) return;
  inTransaction(database, () => {
    for (const migration of migrations.slice(knownVersion(database))) database.exec(migration);
    database.exec(`PRAGMA user_version = ${migrations.length}`);
  });
}

function knownVersion(database: DatabaseSync): number {
  const version = userVersionSchema.parse(database.prepare('PRAGMA user_version').get()).user_version;
  if (version <= migrations.length) return version;
  throw new Error(`it has version ${version}, and this program knows up to ${migrations.length}; run a newer one`);
}
