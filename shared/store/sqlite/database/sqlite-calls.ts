import type { DatabaseSync } from 'node:sqlite';
import { within } from '../../../process/shutdown.ts';
import { keyHashTaken, storeUnavailable } from '../../adapters/store-errors.ts';
import type { DurableCommits } from './durable-commits.ts';
import { inTransaction } from './open-sqlite.ts';
import { patiently, sqliteErrorCode } from './sqlite-patience.ts';

/** Calls of the store: they wait for locks, and report failures as an unavailable store. */
export interface SqliteCalls {
  read<T>(work: () => T): Promise<T>;
  /** Runs `work` as one transaction. Its writes are durable when this resolves. */
  write<T>(work: () => T): Promise<T>;
  /** Resolves when the data read before is durable, so that an answer can depend on it. */
  untilDurable(): Promise<void>;
}

/** As long as a call of the other store may take. */
const diskMs = 5_000;

const SQLITE_CONSTRAINT_UNIQUE = 2067; // sqlite.org/rescode.html

export function createSqliteCalls(database: DatabaseSync, commits: Pick<DurableCommits, 'flush'>): SqliteCalls {
  /** If the store is closed in the meantime, also during a wait for a lock, the call fails as for any unavailable store. */
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

  async function untilDurable(): Promise<void> {
    try {
      if (await within(diskMs, commits.flush())) return;
    } catch (error) {
      throw storeUnavailable(error);
    }
    throw storeUnavailable(new Error('the disk did not respond'));
  }

  return {
    read,
    async write(work) {
      const result = await read(() => inTransaction(database, work));
      await untilDurable();
      return result;
    },
    untilDurable,
  };
}
