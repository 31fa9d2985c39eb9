import { closeSync, openSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { refusedSchema, storeUnavailable } from '../documents.ts';
import { createFolderFileStore, ownerOnly } from '../file-store.ts';
import { collections, createDocumentStores, type Store } from '../records/store.ts';
import { createUsageStore } from '../usage/usage-store.ts';
import { type DurableCommits, openDurableCommits } from './durable-commits.ts';
import { createSqliteCalls, inTransaction, patiently } from './sqlite-calls.ts';
import { createSqliteDocuments, tablesOf } from './sqlite-documents.ts';
import { createSqliteUsage } from './sqlite-usage.ts';
import { usageTables } from './sqlite-usage-sums.ts';

const versionRow = z.object({ version: z.string() });

type Options = { openCommits?: (path: string) => DurableCommits; now?: () => number };

/**
 * The store in one SQLite file, with a folder of files beside it, on one machine. Any number of that machine's processes can open it.
 * Creates the file and its folder if they are missing. Throws an error for the operator if it cannot be used.
 */
export async function openSqliteStore(
  file: string,
  { openCommits = openDurableCommits, now }: Options = {},
): Promise<Store> {
  const path = resolve(file);
  const database = await openSqlite(file);
  const commits = openCommits(path);
  const calls = createSqliteCalls(database, commits);
  const readFile = database.prepare('PRAGMA user_version'); // unlike SELECT 1, it reads the file

  async function ping(): Promise<void> {
    try {
      commits.check();
    } catch (error) {
      throw storeUnavailable(error);
    }
    await calls.read(() => readFile.get());
  }

  return {
    ...createDocumentStores((collection) => createSqliteDocuments(database, calls, collection)),
    usage: createUsageStore(createSqliteUsage(database, calls), { now }),
    files: createFolderFileStore(`${path}-files`, { isOpen: () => database.isOpen }),
    ping,

    async describe() {
      const row = await calls.read(() => database.prepare('SELECT sqlite_version() AS version').get());
      return `sqlite ${versionRow.parse(row).version}`;
    },

    /** Opening the file creates all of them. */
    async listMissingIndexes() {
      await ping();
      return [];
    },

    async [Symbol.asyncDispose]() {
      if (database.isOpen) database.close();
      await commits[Symbol.asyncDispose]();
    },
  };
}

/** Covers another process's commit that is about to end. It blocks this process, so all longer waits are in `patiently`. */
const busyTimeoutMs = 2;

/** 64 MiB of log: reached only if the thread does not make checkpoints in time. */
const autocheckpointPages = 16_384;
/** The size of a log after it was copied into the file and restarts: its length then shows how much it contains. */
const logBytesKept = 1_048_576;

const existing = z.object({ code: z.literal('EEXIST') });
const journalModeSchema = z.object({ journal_mode: z.string() });
const userVersionSchema = z.object({ user_version: z.int() });

/**
 * Opens the database in this file. Creates it, with its folder, if it is missing; only the process's user can read it. Processes that open
 * it at once wait for each other. Throws an error for the operator, which names the file; a database with another schema is not changed.
 */
export async function openSqlite(file: string): Promise<DatabaseSync> {
  const path = resolve(file);
  let database: DatabaseSync | undefined;
  try {
    await mkdir(dirname(path), { recursive: true, mode: ownerOnly.folder });
    createForOwner(path);
    const opened = await patiently(() => new DatabaseSync(path, { timeout: busyTimeoutMs }));
    database = opened;
    await patiently(() => hasSchema(opened)); // first: a database with another schema remains unchanged
    await patiently(() => setDurability(opened));
    await patiently(() => createSchema(opened));
    return opened;
  } catch (error) {
    database?.close();
    throw new Error(`The database ${path} cannot be opened: ${error instanceof Error ? error.message : error}`, {
      cause: error,
    });
  }
}

/**
 * SQLite creates a database with the mode that the umask allows, and its other files (-wal, -shm) with the database's own mode. Only a new
 * file is opened here, and synchronously: closing an existing one would release the locks that this process holds on the database.
 */
function createForOwner(path: string): void {
  try {
    closeSync(openSync(path, 'wx', ownerOnly.file));
  } catch (error) {
    if (!existing.safeParse(error).success) throw error;
  }
}

/**
 * WAL lets the ingress read while a worker writes. A commit does not wait for the disk, but its confirmation does (durable-commits.ts),
 * because the full key is shown once: if a power cut undid the commit, its owner would have a key that does not exist. A thread makes the
 * checkpoints, long before SQLite would make one within a commit.
 */
function setDurability(database: DatabaseSync): void {
  const mode = journalModeSchema.parse(database.prepare('PRAGMA journal_mode = WAL').get()).journal_mode;
  if (mode !== 'wal') throw new Error(`its file system does not support a write-ahead log (journal mode ${mode})`);
  database.exec('PRAGMA synchronous = NORMAL');
  database.exec(`PRAGMA wal_autocheckpoint = ${autocheckpointPages}; PRAGMA journal_size_limit = ${logBytesKept}`);
}

/** Looks again under the lock: another process may have created the schema in the meantime. */
function createSchema(database: DatabaseSync): void {
  if (hasSchema(database)) return;
  inTransaction(database, () => {
    if (hasSchema(database)) return;
    for (const tables of schema) database.exec(tables);
    database.exec(`PRAGMA user_version = ${schemaNumber}`);
  });
}

/** Returns false for a new database. Throws if it has another schema. */
function hasSchema(database: DatabaseSync): boolean {
  const found = userVersionSchema.parse(database.prepare('PRAGMA user_version').get()).user_version;
  if (found !== 0 && found !== schemaNumber) throw refusedSchema({ found, expected: schemaNumber });
  return found === schemaNumber;
}

/** The number of this schema, which the file has as its `user_version` (contract.md#s2-stored-data). */
export const schemaNumber = 1;

/**
 * The tables and indexes of a store. Times in columns are milliseconds since 1970, UTC. In documents, and in columns generated from them,
 * they are ISO 8601 text.
 */
const schema: readonly string[] = [
  // Usage records are also documents, and never change. They are found by admission, and by the id of the answer, which not every record
  // has. Their sums and details are rows, so that one more record changes few small rows (contract.md#r11-details).
  `CREATE TABLE usage_records (
    request_id TEXT NOT NULL PRIMARY KEY,
    account TEXT NOT NULL AS (document ->> '$.account') STORED,
    month TEXT NOT NULL AS (document ->> '$.month') STORED,
    entry TEXT NOT NULL AS (document ->> '$.entry') STORED,
    document TEXT NOT NULL CHECK (json_valid(document))
  ) STRICT;
  CREATE INDEX usage_records_by_account ON usage_records (account, month, entry);
  CREATE INDEX usage_records_by_month ON usage_records (month);
  CREATE INDEX usage_records_by_admission ON usage_records (account, document ->> '$.admittedAt', request_id);
  CREATE INDEX usage_records_by_answer ON usage_records (account, document ->> '$.answerId', document ->> '$.admittedAt')
    WHERE document ->> '$.answerId' IS NOT NULL;`,
  usageTables,

  ...collections.map(tablesOf),
];
