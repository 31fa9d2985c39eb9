import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { batchSchema } from '../../../batches/batch.ts';
import { storedJson } from '../../adapters/stored-json.ts';
import type { EndedBatches } from '../../batches/batch-store.ts';
import type { SqliteCalls } from '../database/sqlite-calls.ts';

const batchRow = z.object({ document: storedJson.pipe(batchSchema) });

const selectEnded = `SELECT document FROM ended_batches JOIN batches ON batches.id = ended_batches.batch
  ORDER BY ended_batches.batch LIMIT ?`;
const deleteMarks = 'DELETE FROM ended_batches WHERE batch IN (SELECT value FROM json_each(?))';

/** The marks are rows: a process of an earlier release replaces the document of a batch as it knows it. */
export function createSqliteEndedBatches(database: DatabaseSync, calls: SqliteCalls): EndedBatches {
  const [ended, unmark] = [database.prepare(selectEnded), database.prepare(deleteMarks)];
  return {
    async listEndedBatches(limit) {
      const rows = await calls.read(() => ended.all(limit));
      return rows.map((row) => batchRow.parse(row).document);
    },

    async forgetEndedBatches(ids) {
      await calls.write(() => unmark.run(JSON.stringify(ids)));
    },
  };
}
