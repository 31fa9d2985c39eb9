import { z } from 'zod';
import { pauseBeforeRetry } from '../../adapters/pause-before-retry.ts';

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
export function sqliteErrorCode(error: unknown): number | undefined {
  return sqliteErrorSchema.safeParse(error).data?.errcode;
}

function isBusy(error: unknown): boolean {
  const primary = (sqliteErrorCode(error) ?? 0) & 0xff;
  return primary === SQLITE_BUSY || primary === SQLITE_LOCKED;
}
