import type { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { type BatchResult, batchResultSchema, batchRetrySchema, batchStates } from '../../../batches/batch.ts';
import { readPages } from '../../adapters/read-pages.ts';
import { storedJson } from '../../adapters/stored-json.ts';
import { charactersOf, inPieces, nextRetry, pageCharactersMax } from '../../batches/batch-lines.ts';
import type { LineRecords } from '../../batches/batch-store.ts';
import type { SqliteCalls } from '../database/sqlite-calls.ts';
import { rowsAtOnce } from '../database/sqlite-pages.ts';

/** Bodies per transaction; more would block the process for too long. A single body can exceed this. */
const charactersAtOnce = 1_048_576;
const numbersAtOnce = 2_000;

const document = storedJson.pipe(z.record(z.string(), z.unknown()));
const resultRow = z
  .object({ document, body: z.string().nullable() })
  .transform((row) => ({ ...row.document, body: row.body }))
  .pipe(batchResultSchema);
const retryRow = z.object({ document: storedJson.pipe(batchRetrySchema) });
const lineRow = z.object({ line: z.int() });
const sizeRow = z.object({ line: z.int(), bytes: z.int() });
const countRow = z.object({ failed: z.int(), count: z.int() });
const stateRow = z.object({
  state: z.enum(batchStates),
  is_open: z.literal([0, 1]),
  retry: storedJson.pipe(batchRetrySchema).nullable(),
});

const insertResult = `INSERT INTO batch_results (batch, line, failed, document, body) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (batch, line) DO NOTHING`;
const selectResult = 'SELECT document, body FROM batch_results WHERE batch = ? AND line = ?';
const selectResults = `SELECT document, body FROM batch_results
  WHERE batch = :batch AND line > :after ORDER BY line LIMIT :limit`;
const selectLines = 'SELECT line FROM batch_results WHERE batch = :batch AND line > :after ORDER BY line LIMIT :limit';
const selectCounts = 'SELECT failed, count(*) AS count FROM batch_results WHERE batch = ? GROUP BY failed';
const selectSizes = `SELECT line, coalesce(octet_length(body), 0) AS bytes FROM batch_results
  WHERE batch = ? ORDER BY line LIMIT ?`;
const removeUpTo = 'DELETE FROM batch_results WHERE batch = ? AND line <= ?';
const selectState = `SELECT state, is_open, batch_retries.document AS retry
  FROM batches LEFT JOIN batch_retries ON batch = id AND line = :line WHERE id = :batch`;
const selectRetry = 'SELECT document FROM batch_retries WHERE batch = ? AND line = ?';
const selectRetries = `SELECT document FROM batch_retries
  WHERE batch = :batch AND line > :after ORDER BY line LIMIT :limit`;
const writeRetry = `INSERT INTO batch_retries (batch, line, document) VALUES (?, ?, ?)
  ON CONFLICT (batch, line) DO UPDATE SET document = excluded.document`;
const removeSome = `DELETE FROM batch_retries WHERE batch = :batch
  AND line IN (SELECT line FROM batch_retries WHERE batch = :batch ORDER BY line LIMIT :limit)`;

/** The bodies of responses are stored beside the documents: inside them, each would be written and read as JSON within JSON. */
export function createSqliteLines(database: DatabaseSync, { read, write }: SqliteCalls): LineRecords {
  const [insert, result] = [database.prepare(insertResult), database.prepare(selectResult)];
  const [results, lines] = [database.prepare(selectResults), database.prepare(selectLines)];
  const [counts, sizes] = [database.prepare(selectCounts), database.prepare(selectSizes)];
  const [stateOf, removeResults] = [database.prepare(selectState), database.prepare(removeUpTo)];
  const [retryOf, retries] = [database.prepare(selectRetry), database.prepare(selectRetries)];
  const [noteRetry, removeRetries] = [database.prepare(writeRetry), database.prepare(removeSome)];

  function readResult(batch: string, line: number): BatchResult | undefined {
    const row = result.get(batch, line);
    return row === undefined ? undefined : resultRow.parse(row);
  }

  /** Inserts a result, and returns the stored result of its line. */
  function insertOne(given: BatchResult): BatchResult {
    const written = batchResultSchema.parse(given);
    const { body, ...fields } = written;
    const { batch, line, failed } = fields;
    const { changes } = insert.run(batch, line, Number(failed), JSON.stringify(fields), body);
    return (changes === 0 ? readResult(batch, line) : undefined) ?? written;
  }

  function readPiece(batch: string, page: { after: number; limit: number }): BatchResult[] {
    const found: BatchResult[] = [];
    let characters = 0;
    for (const row of results.iterate({ batch, ...page })) {
      const each = resultRow.parse(row);
      found.push(each);
      characters += each.body?.length ?? 0;
      if (characters >= charactersAtOnce) break;
    }
    return found;
  }

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
    async insertResults(given) {
      const stored: BatchResult[] = [];
      for (const piece of inPieces(given, { count: rowsAtOnce, characters: charactersAtOnce })) {
        stored.push(...(await write(() => piece.map(insertOne))));
        await nextTurn();
      }
      return stored;
    },

    /**
     * Reads the result first: results are removed only when the batch is over, so a line without a result in a batch that is then still
     * running has not ended.
     */
    findLine: (batch, line) =>
      read(() => {
        const found = readResult(batch, line);
        const row = stateOf.get({ batch, line });
        if (row === undefined) return undefined;
        const { state, is_open, retry } = stateRow.parse(row);
        return { state, open: is_open === 1, number: retry?.number ?? 1, retry: retry ?? undefined, result: found };
      }),

    async listResults(batch, { after, limit }) {
      const found: BatchResult[] = [];
      for (let characters = 0; found.length < limit && characters < pageCharactersMax; ) {
        const page = { after: found.at(-1)?.line ?? after, limit: Math.min(rowsAtOnce, limit - found.length) };
        const piece = await read(() => readPiece(batch, page));
        if (piece.length === 0) break;
        found.push(...piece);
        characters += charactersOf(piece);
        await nextTurn();
      }
      return found;
    },

    async countResults(batch) {
      const rows = z.array(countRow).parse(await read(() => counts.all(batch)));
      const countOf = (failed: number) => rows.find((row) => row.failed === failed)?.count ?? 0;
      return { completed: countOf(0), failed: countOf(1) };
    },

    listEndedLines: (batch, from) =>
      readPages<number, number>({
        pageMax: numbersAtOnce,
        after: from - 1,
        placeOf: (line) => line,
        read: async (page) => {
          const rows = await read(() => lines.all({ batch, ...page }));
          return rows.map((row) => lineRow.parse(row).line);
        },
      }),

    recordRetry: (retry) =>
      write(() => {
        const row = retryOf.get(retry.batch, retry.line);
        const { result: stands, next } = nextRetry(batchRetrySchema.parse(retry))(
          row === undefined ? undefined : retryRow.parse(row).document,
        );
        if (next !== undefined) noteRetry.run(next.batch, next.line, JSON.stringify(next));
        return stands;
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

    async removeResults(batch, limit) {
      for (let removed = 0; removed < limit; ) {
        const most = Math.min(rowsAtOnce, limit - removed);
        const piece = await write(() => removePiece(batch, most));
        if (piece === 0) return true;
        removed += piece;
        await nextTurn();
      }
      return false;
    },
  };
}
