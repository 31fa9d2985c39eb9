import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { openSqliteStore } from '../../../shared/store/sqlite/sqlite-store.ts';
import { usageUnits } from '../../../shared/store/usage/usage-tables.ts';
import { type StoreHome, storeTime } from './store-contract.ts';

export type SqliteHome = StoreHome & { folder: string; file: string };

/** A file that does not exist yet, in its own folder. */
export async function createSqliteHome(): Promise<SqliteHome> {
  const folder = await mkdtemp(join(tmpdir(), 'sqlite-store-'));
  const file = join(folder, 'store.db');
  return {
    folder,
    file,
    url: `sqlite:${file}`,
    open: () => openSqliteStore(file, { now: () => storeTime }),
    removeSums: async () => change(file, 'DELETE FROM usage_sums; DELETE FROM usage_days; DELETE FROM usage_hours'),
    spoilSums: async () => change(file, 'UPDATE usage_sums SET charged_tokens = charged_tokens + 1'),
    removeTotals: async () => change(file, 'DELETE FROM usage_sums'),
    moveDetails: async (lastEntry) => changeDetails(file, `last_entry = '${lastEntry}'`),
    spoilDetails: async () => changeDetails(file, 'cached_tokens = cached_tokens + 1'),
    countPieces: async () => (await readdir(`${file}-files`)).length,
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

function changeDetails(file: string, assignment: string): void {
  for (const unit of usageUnits) change(file, `UPDATE usage_${unit}s SET ${assignment}`);
}

function change(file: string, sql: string): void {
  using database = new DatabaseSync(file);
  database.exec(sql);
}

/** Holds the lock that every writer needs, until this connection releases it. */
export function holdLock(file: string): DatabaseSync {
  const database = new DatabaseSync(file);
  database.exec('BEGIN IMMEDIATE');
  return database;
}

/**
 * Releases the lock after this many turns of the event loop, unless it is closed before. The returned function says whether it is released.
 */
export function releaseAfterTurns(
  lock: DatabaseSync,
  turns: number,
  how: 'COMMIT' | 'ROLLBACK' = 'ROLLBACK',
): () => boolean {
  let left = turns;
  const timer = setInterval(() => {
    left -= 1;
    if (left > 0 && lock.isOpen) return;
    clearInterval(timer);
    if (lock.isOpen) lock.exec(how);
  }, 1);
  return () => left === 0;
}
