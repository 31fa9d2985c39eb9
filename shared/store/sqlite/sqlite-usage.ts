import type { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { storedJson } from '../adapters/stored-json.ts';
import { type UsageRecord, usageRecordSchema } from '../usage/usage-record.ts';
import { byMonth, summedRecordSchema } from '../usage/usage-sums.ts';
import type { DoubtfulMonth, UsageTables } from '../usage/usage-tables.ts';
import type { SqliteCalls } from './database/sqlite-calls.ts';
import { rowsAtOnce } from './database/sqlite-pages.ts';
import { createSqliteSums } from './sqlite-usage-sums.ts';

const recordRow = z.object({ document: storedJson.pipe(usageRecordSchema) });
const summedRow = z.object({ document: storedJson.pipe(summedRecordSchema) });
const entryRow = z.object({ entry: z.string() });
const monthRow = z.object({ account: z.string(), month: z.string() });

const insertRecord = `INSERT INTO usage_records (request_id, document) VALUES (?, ?) ON CONFLICT (request_id) DO NOTHING`;
const selectEntry = 'SELECT entry FROM usage_records WHERE request_id = ?';
const selectRecord = 'SELECT document FROM usage_records WHERE request_id = ?';
const selectRecords = `SELECT document FROM usage_records
  WHERE account = :account AND month = :month AND entry > :after AND entry <= :upTo ORDER BY entry LIMIT :limit`;
const selectNextMonth = `SELECT account, month FROM (
    SELECT * FROM (SELECT account, month FROM usage_records WHERE (account, month) > (:account, :month)
      ORDER BY account, month LIMIT 1)
    UNION
    SELECT * FROM (SELECT account, month FROM usage_sums WHERE (account, month) > (:account, :month)
      ORDER BY account, month LIMIT 1)
  ) ORDER BY account, month LIMIT 1`;
const removeRecords = `DELETE FROM usage_records
  WHERE rowid IN (SELECT rowid FROM usage_records WHERE month < ? LIMIT ?)`;

/** Stores records as documents, like accounts, and sums as rows, so that one more request changes one row. */
export function createSqliteUsage(database: DatabaseSync, { read, write }: SqliteCalls): UsageTables {
  const sums = createSqliteSums(database);
  const takePiece = createTakePiece(database, sums);
  const [recordOf, recordsOf] = [database.prepare(selectRecord), database.prepare(selectRecords)];
  const [nextMonth, remove] = [database.prepare(selectNextMonth), database.prepare(removeRecords)];

  return {
    async take(records) {
      const doubtful: DoubtfulMonth[] = [];
      for (let from = 0; from < records.length; from += rowsAtOnce) {
        const piece = records.slice(from, from + rowsAtOnce);
        doubtful.push(...(await write(() => takePiece(piece))));
        await nextTurn();
      }
      return doubtful;
    },

    readSum: (month) => read(() => sums.read(month)),

    async readRecords(month, range) {
      const rows = await read(() => recordsOf.all({ ...month, ...range }));
      await nextTurn();
      return rows.map((row) => summedRow.parse(row).document);
    },

    replaceSum: (sum, kept) => write(() => sums.replace(sum, kept)),

    nextMonth: async (after) => {
      const row = await read(() => nextMonth.get({ account: after.account, month: after.month }));
      return row === undefined ? undefined : monthRow.parse(row);
    },

    findRecord: async (requestId) => {
      const row = await read(() => recordOf.get(requestId));
      return row === undefined ? undefined : recordRow.parse(row).document;
    },

    async removeBefore(month, limit) {
      let removed = 0;
      for (let piece = -1; removed < limit && piece !== 0; removed += piece) {
        const most = Math.min(rowsAtOnce, limit - removed);
        piece = await write(() => Number(remove.run(month, most).changes));
        await nextTurn();
      }
      return removed > 0 ? removed : write(() => sums.removeBefore(month, limit));
    },
  };
}

function createTakePiece(database: DatabaseSync, sums: ReturnType<typeof createSqliteSums>) {
  const [insert, entryOf] = [database.prepare(insertRecord), database.prepare(selectEntry)];

  /** Inserts the record if it is new, and returns the entry under which the request's record is stored. */
  function storedEntry(record: UsageRecord): string {
    const written = usageRecordSchema.parse(record);
    if (insert.run(written.requestId, JSON.stringify(written)).changes === 1) return written.entry;
    return entryRow.parse(entryOf.get(record.requestId)).entry;
  }

  return function takePiece(records: readonly UsageRecord[]): DoubtfulMonth[] {
    const storedEntries = new Map(records.map((record) => [record.requestId, storedEntry(record)]));
    return byMonth(records, storedEntries)
      .filter((batch) => sums.add(batch) || batch.disputed)
      .map(({ account, month, lastEntry }) => ({ account, month, upTo: lastEntry }));
  };
}
