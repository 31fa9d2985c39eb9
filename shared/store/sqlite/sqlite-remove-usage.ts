import type { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { UsageTables } from '../usage/usage-tables.ts';
import type { SqliteCalls } from './database/sqlite-calls.ts';

/** For about this long a piece blocks the process, and writers of other processes. */
const pieceMsWanted = 2;
/** Larger pieces remove no more rows per second, because the pauses follow them, and others wait longer for the lock and the disk. */
const [piecesMin, piecesMax] = [10, 100];

/** Each finds its rows by an index on months, and looks at no more than it removes. */
const removals = [
  `DELETE FROM usage_records WHERE rowid IN (SELECT rowid FROM usage_records WHERE month < :month LIMIT :limit)`,
  `DELETE FROM usage_details WHERE (account, month, day, model, key_id, endpoint) IN (
    SELECT account, month, day, model, key_id, endpoint FROM usage_details WHERE month < :month LIMIT :limit)`,
  `DELETE FROM usage_sums WHERE (account, month) IN (
    SELECT account, month FROM usage_sums WHERE month < :month LIMIT :limit)`,
];

/**
 * Removes old usage in pieces that hold the lock of all writers for some milliseconds: records first, then details, then sums, because sums
 * list the months.
 */
export function createRemoveUsage(
  database: DatabaseSync,
  { write }: Pick<SqliteCalls, 'write'>,
): UsageTables['removeBefore'] {
  const statements = removals.map((removal) => database.prepare(removal));
  let piece = piecesMin;

  function removePiece(month: string): number {
    const startedAt = performance.now();
    for (const statement of statements) {
      const removed = Number(statement.run({ month, limit: piece }).changes);
      if (removed === 0) continue;
      const factor = pieceMsWanted / Math.max(0.1, performance.now() - startedAt);
      piece = Math.round(Math.min(piecesMax, Math.max(piecesMin, piece * Math.min(2, factor))));
      return removed;
    }
    return 0;
  }

  return async function removeBefore(month) {
    const removed = await write(() => removePiece(month));
    await nextTurn();
    return removed;
  };
}
