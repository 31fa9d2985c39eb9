import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';

/** Longer than any transaction of ours, shorter than a client waits for an answer. */
const patienceMs = 2_000;
const pauseMsMax = 50;

/** Primary result codes (sqlite.org/rescode.html). */
const SQLITE_BUSY = 5;
const SQLITE_LOCKED = 6;

/** `errcode` is an extended result code: its low byte is the primary one. */
const sqliteErrorSchema = z.object({ code: z.literal('ERR_SQLITE_ERROR'), errcode: z.int() });

/**
 * Runs `work`, and again while another connection holds the lock it needs, for up to two seconds. Between two attempts
 * the process is free. SQLite's own busy time-out would stop it instead, and every stream in it, so that one is kept to
 * 2 ms. `work` must leave nothing behind when it fails. Then, and for any other
 * failure, throws what `work` threw.
 */
export async function patiently<T>(work: () => T): Promise<T> {
  const giveUpAt = performance.now() + patienceMs;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || performance.now() >= giveUpAt) throw error;
    }
    await sleep(Math.random() * Math.min(pauseMsMax, 2 ** attempt));
  }
}

/** The extended result code of a failure that SQLite reported; undefined for any other error. */
export function sqliteErrorCode(error: unknown): number | undefined {
  return sqliteErrorSchema.safeParse(error).data?.errcode;
}

function isBusy(error: unknown): boolean {
  const primary = (sqliteErrorCode(error) ?? 0) & 0xff;
  return primary === SQLITE_BUSY || primary === SQLITE_LOCKED;
}
