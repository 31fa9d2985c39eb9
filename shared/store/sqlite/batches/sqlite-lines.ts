import type { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { batchRetrySchema, batchStates } from '../../../batches/batch.ts';
import { storedJson } from '../../adapters/stored-json.ts';
import type { LineRecords } from '../../batches/batch-store.ts';
import type { SqliteCalls } from '../database/sqlite-calls.ts';
import { charactersAtOnce, rowsAtOnce } from '../database/sqlite-pages.ts';
import { createSqliteResults } from './sqlite-results.ts';
import { createSqliteRetries } from './sqlite-retries.ts';

const sizeRow = z.object({ line: z.int(), bytes: z.int() });
const stateRow = z.object({
  state: z.enum(batchStates),
  is_open: z.literal([0, 1]),
  retry: storedJson.pipe(batchRetrySchema).nullable(),
});

const selectState = `SELECT state, is_open, batch_retries.document AS retry
  FROM batches LEFT JOIN batch_retries ON batch = id AND line = :line WHERE id = :batch`;
const selectSizes = `SELECT line, coalesce(octet_length(body), 0) AS bytes FROM batch_results
  WHERE batch = ? ORDER BY line LIMIT ?`;
const removeUpTo = 'DELETE FROM batch_results WHERE batch = ? AND line <= ?';
const removeSome = `DELETE FROM batch_retries WHERE batch = :batch
  AND line IN (SELECT line FROM batch_retries WHERE batch = :batch ORDER BY line LIMIT :limit)`;

export function createSqliteLines(database: DatabaseSync, calls: SqliteCalls): LineRecords {
  const [stateOf, sizes] = [database.prepare(selectState), database.prepare(selectSizes)];
  const [removeResults, removeRetries] = [database.prepare(removeUpTo), database.prepare(removeSome)];
  const { readResult, ...results } = createSqliteResults(database, calls);

  /** Removes the first results, up to `limit` and up to a total size; returns how many were removed. */
  function removePiece(batch: string, limit: number): number {
    const first = sizes.all(batch, limit).map((row) => sizeRow.parse(row));
    if (first.length === 0) return Number(removeRetries.run({ batch, limit }).changes);
    let bytes = 0;
    const fits = first.filter((row, index) => {
      bytes += row.bytes;
      return index === 0 || bytes <= charactersAtOnce;
    });
    return Number(removeResults.run(batch, fits.at(-1)?.line ?? 0).changes);
  }

  return {
    ...results,
    ...createSqliteRetries(database, calls),

    /**
     * Reads the result first: results are removed only when the batch is over, so a line without a result in a batch that is then still
     * running has not ended.
     */
    findLine: (batch, line) =>
      calls.read(() => {
        const result = readResult(batch, line);
        const row = stateOf.get({ batch, line });
        if (row === undefined) return undefined;
        const { state, is_open, retry } = stateRow.parse(row);
        return { state, open: is_open === 1, number: retry?.number ?? 1, retry: retry ?? undefined, result };
      }),

    async removeResults(batch, limit) {
      for (let removed = 0; removed < limit; ) {
        const most = Math.min(rowsAtOnce, limit - removed);
        const piece = await calls.write(() => removePiece(batch, most));
        if (piece === 0) return true;
        removed += piece;
        await nextTurn();
      }
      return false;
    },
  };
}
