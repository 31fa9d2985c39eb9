import type { DatabaseSync } from 'node:sqlite';
import { within } from '../../process/shutdown.ts';
import { keyHashTaken, storeUnavailable } from '../adapters/store-errors.ts';
import type { DurableCommits } from './durable-commits.ts';
import { inTransaction } from './open-sqlite.ts';
import { patiently, sqliteErrorCode } from './sqlite-patience.ts';

/** Calls of the store: they wait for locks, and fail as every loss of the store does. */
export interface SqliteCalls {
  read<T>(work: () => T): Promise<T>;
  /** `work` is one transaction; what it has written lasts when this resolves. */
  write<T>(work: () => T): Promise<T>;
  /** Resolves when what was read before lasts, so that an answer can rest on it. */
  lasting(): Promise<void>;
}

/** As long as any other store may take for an answer. */
const diskMs = 5_000;

const SQLITE_CONSTRAINT_UNIQUE = 2067; // sqlite.org/rescode.html

export function createSqliteCalls(database: DatabaseSync, commits: Pick<DurableCommits, 'last'>): SqliteCalls {
  /** Closed meanwhile, also while it waits for a lock: the same failure as any other loss of the store. */
  async function read<T>(work: () => T): Promise<T> {
    try {
      return await patiently(() => {
        if (!database.isOpen) throw storeUnavailable(new Error('the store is closed'));
        return work();
      });
    } catch (error) {
      const code = sqliteErrorCode(error);
      if (code === SQLITE_CONSTRAINT_UNIQUE) throw keyHashTaken(error);
      throw code === undefined ? error : storeUnavailable(error);
    }
  }

  async function lasting(): Promise<void> {
    try {
      if (await within(diskMs, commits.last())) return;
    } catch (error) {
      throw storeUnavailable(error);
    }
    throw storeUnavailable(new Error('the disk does not answer'));
  }

  return {
    read,
    async write(work) {
      const result = await read(() => inTransaction(database, work));
      await lasting();
      return result;
    },
    lasting,
  };
}
