import type { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { compareBytes } from '../adapters/compare-bytes.ts';
import { storedJson } from '../adapters/stored-json.ts';
import { summedRecordSchema } from '../usage/usage-counts.ts';
import { type UsageRecord, usageRecordSchema } from '../usage/usage-record.ts';
import { byMonth } from '../usage/usage-sums.ts';
import type { DoubtfulMonth, UsageTables } from '../usage/usage-tables.ts';
import type { SqliteCalls } from './database/sqlite-calls.ts';
import { rowsAtOnce } from './database/sqlite-pages.ts';
import { createFindRecords } from './sqlite-find-records.ts';
import { createRemoveUsage } from './sqlite-remove-usage.ts';
import { createSqliteSums } from './sqlite-usage-sums.ts';

const summedRow = z.object({ document: storedJson.pipe(summedRecordSchema) });
const entryRow = z.object({ entry: z.string() });
const monthRow = z.object({ account: z.string(), month: z.string() });

const insertRecord = `INSERT INTO usage_records (request_id, document) VALUES (?, ?) ON CONFLICT (request_id) DO NOTHING`;
const selectEntry = 'SELECT entry FROM usage_records WHERE request_id = ?';
const selectRecords = `SELECT document FROM usage_records
  WHERE account = :account AND month = :month AND entry > :after AND entry <= :upTo ORDER BY entry LIMIT :limit`;
const selectNextMonth = `SELECT account, month FROM (
    SELECT * FROM (SELECT account, month FROM usage_records WHERE (account, month) > (:account, :month)
      ORDER BY account, month LIMIT 1)
    UNION
    SELECT * FROM (SELECT account, month FROM usage_sums WHERE (account, month) > (:account, :month)
      ORDER BY account, month LIMIT 1)
  ) ORDER BY account, month LIMIT 1`;

/** Stores records as documents, like accounts, and sums and details as rows, so that one more request changes few small rows. */
export function createSqliteUsage(database: DatabaseSync, calls: SqliteCalls): UsageTables {
  const { read, write } = calls;
  const sums = createSqliteSums(database);
  const { details } = sums;
  const takePiece = createTakePiece(database, sums);
  const recordsOf = database.prepare(selectRecords);
  const nextMonth = database.prepare(selectNextMonth);

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

    ...createReadDetails(details, read),

    replaceSum: (sum, kept) => write(() => sums.replace(sum, kept)),

    async replaceDetails(_month, changes) {
      for (let from = 0; from < changes.length; from += rowsAtOnce) {
        const piece = changes.slice(from, from + rowsAtOnce);
        if (!(await write(() => piece.map(details.replace))).every(Boolean)) return false;
        await nextTurn();
      }
      return true;
    },

    nextMonth: async (after) => {
      const row = await read(() => nextMonth.get({ account: after.account, month: after.month }));
      return row === undefined ? undefined : monthRow.parse(row);
    },

    ...createFindRecords(database, calls),
    removeBefore: createRemoveUsage(database, calls),
  };
}

function createReadDetails(
  details: ReturnType<typeof createSqliteSums>['details'],
  read: SqliteCalls['read'],
): Pick<UsageTables, 'readDetails' | 'readMonthDetails' | 'compareAccounts'> {
  return {
    async readDetails(month, page) {
      const found = await read(() => details.read(month, page));
      await nextTurn();
      return found;
    },
    async readMonthDetails(month, page) {
      const found = await read(() => details.readMonth(month, page));
      await nextTurn();
      return found;
    },
    compareAccounts: compareBytes,
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
    return byMonth(records, storedEntries).flatMap((batch) => {
      const { account, month, lastEntry, disputed } = batch;
      return sums.add(batch) && !disputed ? [] : [{ account, month, upTo: lastEntry }];
    });
  };
}
