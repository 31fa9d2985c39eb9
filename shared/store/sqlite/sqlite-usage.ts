import type { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { storedJson } from '../../stored-values.ts';
import { compareBytes } from '../documents/lists.ts';
import { type UsageRecord, usageRecordSchema } from '../usage/usage-record.ts';
import { byMonth, summedRecordSchema } from '../usage/usage-sums.ts';
import type { DoubtfulMonth, UsageTables } from '../usage/usage-tables.ts';
import type { SqliteCalls } from './sqlite-calls.ts';
import { createSqliteSums } from './sqlite-usage-sums.ts';

/** This many rows block the process for a few milliseconds; between pieces it yields to the event loop. */
const rowsAtOnce = 100;

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

const recordRow = z.object({ document: storedJson.pipe(usageRecordSchema) });

const selectRecord = 'SELECT document FROM usage_records WHERE request_id = ?';
const selectByAnswer = `SELECT document FROM usage_records
  WHERE account = ? AND document ->> '$.answerId' = ? ORDER BY document ->> '$.admittedAt' DESC LIMIT 1`;
const selectPage = `SELECT document FROM usage_records
  WHERE account = :account AND document ->> '$.admittedAt' <= :admittedAt
    AND (document ->> '$.admittedAt' < :admittedAt OR request_id < :requestId)
  ORDER BY document ->> '$.admittedAt' DESC, request_id DESC LIMIT :limit`;

/** As text, it comes after every time. */
const afterAllTimes = '~';

/** Finds and lists whole records by the indexes that are made for that (sqlite-schema.ts). */
function createFindRecords(
  database: DatabaseSync,
  { read }: Pick<SqliteCalls, 'read'>,
): Pick<UsageTables, 'findRecord' | 'findByAnswer' | 'listRecords'> {
  const [byId, byAnswer] = [database.prepare(selectRecord), database.prepare(selectByAnswer)];
  const pageOf = database.prepare(selectPage);
  return {
    findRecord: async (requestId) => toRecord(await read(() => byId.get(requestId))),
    findByAnswer: async (account, answerId) => toRecord(await read(() => byAnswer.get(account, answerId))),
    async listRecords(account, { before, limit }) {
      const place = {
        admittedAt: before?.admittedAt.toISOString() ?? afterAllTimes,
        requestId: before?.requestId ?? '',
      };
      const rows = await read(() => pageOf.all({ account, ...place, limit }));
      await nextTurn();
      return rows.map((row) => recordRow.parse(row).document);
    },
  };
}

function toRecord(row: unknown): UsageRecord | undefined {
  return row === undefined ? undefined : recordRow.parse(row).document;
}

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
function createRemoveUsage(database: DatabaseSync, { write }: Pick<SqliteCalls, 'write'>): UsageTables['removeBefore'] {
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
