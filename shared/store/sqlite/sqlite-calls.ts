import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { within } from '../../concurrency/shutdown.ts';
import { pauseBeforeRetry, storeUnavailable, valueTaken } from '../documents.ts';
import type { DurableCommits } from './durable-commits.ts';

/** As long as a call of the other store may take. */
const usualDiskMs = 5_000;
/** While this process is blocked, it does not see that the disk has responded: that time counts as one of these. */
const diskLooks = 5;

/** A value that another row has (sqlite.org/rescode.html). */
const [SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_UNIQUE] = [1555, 2067];

/** Calls of the store: they wait for locks, and report failures as an unavailable store. */
export function createSqliteCalls(
  database: DatabaseSync,
  commits: Pick<DurableCommits, 'flush'>,
  { diskMs = usualDiskMs }: { diskMs?: number } = {},
) {
  /** If the store is closed in the meantime, also during a wait for a lock, the call fails as for any unavailable store. */
  async function read<T>(work: () => T): Promise<T> {
    try {
      return await patiently(() => {
        if (!database.isOpen) throw storeUnavailable(new Error('the store is closed'));
        return work();
      });
    } catch (error) {
      const code = sqliteErrorCode(error);
      if (code === SQLITE_CONSTRAINT_PRIMARYKEY || code === SQLITE_CONSTRAINT_UNIQUE) throw valueTaken(error);
      throw code === undefined ? error : storeUnavailable(error);
    }
  }

  /** Resolves when the data read before is durable, so that an answer can depend on it. */
  async function untilDurable(): Promise<void> {
    try {
      const flushed = commits.flush();
      for (let look = 0; look < diskLooks; look += 1) if (await within(diskMs / diskLooks, flushed)) return;
    } catch (error) {
      throw storeUnavailable(error);
    }
    throw storeUnavailable(new Error('the disk did not respond'));
  }

  return {
    read,
    /** Runs `work` as one transaction. Its writes are durable when this resolves. */
    async write<T>(work: () => T): Promise<T> {
      const result = await read(() => inTransaction(database, work));
      await untilDurable();
      return result;
    },
    untilDurable,
  };
}

export type SqliteCalls = ReturnType<typeof createSqliteCalls>;

/** Longer than any of this store's transactions, shorter than a client waits for an answer. */
const patienceMs = 2_000;

/** Primary result codes (sqlite.org/rescode.html). */
const SQLITE_BUSY = 5;
const SQLITE_LOCKED = 6;

/** `errcode` is an extended result code: its low byte is the primary one. */
const sqliteErrorSchema = z.object({ code: z.literal('ERR_SQLITE_ERROR'), errcode: z.int() });

/**
 * Runs `work`, and retries for up to two seconds while another connection holds the lock it needs. Between two attempts the process is
 * free. SQLite's own busy timeout would block the process and every stream in it, so it is only 2 ms. `work` must leave no changes when
 * it fails. After that time, and for any other failure, throws the error of `work`.
 */
export async function patiently<T>(work: () => T): Promise<T> {
  const giveUpAt = performance.now() + patienceMs;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || performance.now() >= giveUpAt) throw error;
    }
    await pauseBeforeRetry(attempt);
  }
}

/** Returns the extended result code of a failure that SQLite reported, or undefined for any other error. */
function sqliteErrorCode(error: unknown): number | undefined {
  return sqliteErrorSchema.safeParse(error).data?.errcode;
}

function isBusy(error: unknown): boolean {
  const primary = (sqliteErrorCode(error) ?? 0) & 0xff;
  return primary === SQLITE_BUSY || primary === SQLITE_LOCKED;
}

/** Runs `work` in a transaction. Other writers wait until it ends; if `work` throws, all its writes are rolled back. */
export function inTransaction<T>(database: DatabaseSync, work: () => T): T {
  database.exec('BEGIN IMMEDIATE'); // a transaction that reads before it writes could not be retried: SQLITE_BUSY_SNAPSHOT
  try {
    const result = work();
    database.exec('COMMIT');
    return result;
  } catch (error) {
    if (database.isTransaction) database.exec('ROLLBACK'); // some errors, such as a full disk, have already rolled back
    throw error;
  }
}
