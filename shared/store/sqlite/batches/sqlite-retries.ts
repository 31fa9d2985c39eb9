import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { batchRetrySchema } from '../../../batches/batch.ts';
import { readPages } from '../../adapters/read-pages.ts';
import { storedJson } from '../../adapters/stored-json.ts';
import { nextRetry } from '../../batches/batch-lines.ts';
import type { LineRecords } from '../../batches/batch-store.ts';
import type { SqliteCalls } from '../database/sqlite-calls.ts';
import { rowsAtOnce } from '../database/sqlite-pages.ts';

const retryRow = z.object({ document: storedJson.pipe(batchRetrySchema) });

const selectRetry = 'SELECT document FROM batch_retries WHERE batch = ? AND line = ?';
const selectRetries = `SELECT document FROM batch_retries
  WHERE batch = :batch AND line > :after ORDER BY line LIMIT :limit`;
const writeRetry = `INSERT INTO batch_retries (batch, line, document) VALUES (?, ?, ?)
  ON CONFLICT (batch, line) DO UPDATE SET document = excluded.document`;

type RetryRecords = Pick<LineRecords, 'recordRetry' | 'listRetries'>;

export function createSqliteRetries(database: DatabaseSync, { read, write }: SqliteCalls): RetryRecords {
  const [retryOf, retries] = [database.prepare(selectRetry), database.prepare(selectRetries)];
  const noteRetry = database.prepare(writeRetry);

  return {
    recordRetry: (retry) =>
      write(() => {
        const row = retryOf.get(retry.batch, retry.line);
        const { result, next } = nextRetry(batchRetrySchema.parse(retry))(
          row === undefined ? undefined : retryRow.parse(row).document,
        );
        if (next !== undefined) noteRetry.run(next.batch, next.line, JSON.stringify(next));
        return result;
      }),

    listRetries: (batch) =>
      readPages({
        pageMax: rowsAtOnce,
        after: 0,
        placeOf: ({ line }) => line,
        read: async (page) => {
          const rows = await read(() => retries.all({ batch, ...page }));
          return rows.map((row) => retryRow.parse(row).document);
        },
      }),
  };
}
