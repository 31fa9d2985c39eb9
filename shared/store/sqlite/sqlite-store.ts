import { resolve } from 'node:path';
import { z } from 'zod';
import { createDocumentStores } from '../document-stores.ts';
import { storeUnavailable } from '../documents/store-errors.ts';
import { createFolderFileStore } from '../files/folder-file-store.ts';
import type { Store } from '../store.ts';
import { createUsageStore } from '../usage/usage-store.ts';
import { type DurableCommits, openDurableCommits } from './durable-commits.ts';
import { openSqlite } from './open-sqlite.ts';
import { createSqliteCalls } from './sqlite-calls.ts';
import { createSqliteDocuments } from './sqlite-documents.ts';
import { createSqliteUsage } from './sqlite-usage.ts';

const versionRow = z.object({ version: z.string() });

type Options = { openCommits?: (path: string) => DurableCommits };

/**
 * The store in one SQLite file, with a folder of files beside it, on one machine. Any number of that machine's processes can open it.
 * Creates the file and its folder if they are missing. Throws an error for the operator if it cannot be used.
 */
export async function openSqliteStore(
  file: string,
  { openCommits = openDurableCommits }: Options = {},
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
    usage: createUsageStore(createSqliteUsage(database, calls)),
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
