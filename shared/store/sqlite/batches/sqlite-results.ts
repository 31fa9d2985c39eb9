import type { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { type BatchResult, batchResultSchema } from '../../../batches/batch.ts';
import { readPages } from '../../adapters/read-pages.ts';
import { storedJson } from '../../adapters/stored-json.ts';
import { charactersOf, inPieces, pageCharactersMax } from '../../batches/batch-lines.ts';
import type { LineRecords } from '../../batches/batch-store.ts';
import type { SqliteCalls } from '../database/sqlite-calls.ts';
import { charactersAtOnce, rowsAtOnce } from '../database/sqlite-pages.ts';

const numbersAtOnce = 2_000;

const document = storedJson.pipe(z.record(z.string(), z.unknown()));
const resultRow = z
  .object({ document, body: z.string().nullable() })
  .transform((row) => ({ ...row.document, body: row.body }))
  .pipe(batchResultSchema);
const lineRow = z.object({ line: z.int() });
const countRow = z.object({ failed: z.int(), count: z.int() });

const insertResult = `INSERT INTO batch_results (batch, line, failed, document, body) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (batch, line) DO NOTHING`;
const selectResult = 'SELECT document, body FROM batch_results WHERE batch = ? AND line = ?';
const selectResults = `SELECT document, body FROM batch_results
  WHERE batch = :batch AND line > :after ORDER BY line LIMIT :limit`;
const selectLines = 'SELECT line FROM batch_results WHERE batch = :batch AND line > :after ORDER BY line LIMIT :limit';
const selectCounts = 'SELECT failed, count(*) AS count FROM batch_results WHERE batch = ? GROUP BY failed';

type ResultRecords = Pick<LineRecords, 'insertResults' | 'listResults' | 'countResults' | 'listEndedLines'> & {
  /** Reads the result of one line, within a call. */
  readResult(batch: string, line: number): BatchResult | undefined;
};

/** The bodies of responses are stored beside the documents: inside them, each would be written and read as JSON within JSON. */
export function createSqliteResults(database: DatabaseSync, { read, write }: SqliteCalls): ResultRecords {
  const { readResult, insertOne, readPiece } = prepareResults(database);
  const [lines, counts] = [database.prepare(selectLines), database.prepare(selectCounts)];

  return {
    readResult,

    async insertResults(given) {
      const stored: BatchResult[] = [];
      for (const piece of inPieces(given, { count: rowsAtOnce, characters: charactersAtOnce })) {
        stored.push(...(await write(() => piece.map(insertOne))));
        await nextTurn();
      }
      return stored;
    },

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
  };
}

/** Functions that read and insert results within a call. */
function prepareResults(database: DatabaseSync) {
  const [insert, result] = [database.prepare(insertResult), database.prepare(selectResult)];
  const results = database.prepare(selectResults);

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

  return { readResult, insertOne, readPiece };
}
