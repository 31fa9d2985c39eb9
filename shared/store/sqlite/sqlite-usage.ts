import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { storedJson } from '../../json/stored-values.ts';
import { compareBytes } from '../lists.ts';
import { byMonth, summedRecordSchema, type UsageRecord, usageRecordSchema } from '../usage/usage-record.ts';
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
  const { details, refusals } = sums;
  const takePiece = createTakePiece(database, sums);
  const recordsOf = database.prepare(selectRecords);
  const nextMonth = database.prepare(selectNextMonth);

  return {
    async take(records, hoursFrom) {
      const doubtful: DoubtfulMonth[] = [];
      for (const piece of inPieces(records)) {
        doubtful.push(...(await write(() => takePiece(piece, hoursFrom))));
        await nextTurn();
      }
      return doubtful;
    },

    async takeRefusals(all) {
      for (const piece of inPieces(all)) {
        await write(() => piece.forEach(refusals.add));
        await nextTurn();
      }
    },

    readSum: (month) => read(() => sums.read(month)),

    async readRecords(month, range) {
      const rows = await read(() => recordsOf.all({ ...month, ...range }));
      await nextTurn();
      return rows.map((row) => summedRow.parse(row).document);
    },

    ...createReadDetails(sums, read),

    replaceSum: (sum, kept) => write(() => sums.replace(sum, kept)),

    async replaceDetails(_month, changes) {
      for (const piece of inPieces(changes)) {
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
    ...createRemoveUsage(database, calls),
  };
}

function inPieces<Item>(all: readonly Item[]): Item[][] {
  const count = Math.ceil(all.length / rowsAtOnce);
  return Array.from({ length: count }, (_, index) => all.slice(index * rowsAtOnce, (index + 1) * rowsAtOnce));
}

type DetailReads = 'readDetails' | 'readMonthDetails' | 'compareAccounts' | 'sumHour' | 'readRefusals' | 'sumRefusals';

function createReadDetails(
  { details, refusals }: Pick<ReturnType<typeof createSqliteSums>, 'details' | 'refusals'>,
  read: SqliteCalls['read'],
): Pick<UsageTables, DetailReads> {
  return {
    async sumHour(hour, groups) {
      const found = await read(() => details.sumHour(hour, groups));
      await nextTurn();
      return found;
    },
    readRefusals: (account, range) => read(() => refusals.read(account, range)),
    sumRefusals: (hour, groups) => read(() => refusals.sum(hour, groups)),
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

  return function takePiece(records: readonly UsageRecord[], hoursFrom: string): DoubtfulMonth[] {
    const storedEntries = new Map(records.map((record) => [record.requestId, storedEntry(record)]));
    return byMonth(records, storedEntries).flatMap((batch) => {
      const { account, month, lastEntry, disputed } = batch;
      return sums.add(batch, hoursFrom) && !disputed ? [] : [{ account, month, upTo: lastEntry }];
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

/** Finds and lists whole records by the indexes that are made for that (sqlite-store.ts). */
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

/** Each finds its rows by an index on months or hours, and looks at no more than it removes. */
const removals = {
  removeBefore: [
    `DELETE FROM usage_records WHERE rowid IN (SELECT rowid FROM usage_records WHERE month < :before LIMIT :limit)`,
    ...['usage_days', 'usage_hours'].map((table) =>
      removalOf(table, 'account, month, start, model, key_id, endpoint, code', 'month'),
    ),
    removalOf('usage_sums', 'account, month', 'month'),
  ],
  removeHoursBefore: [
    removalOf('usage_hours', 'account, month, start, model, key_id, endpoint, code', 'start'),
    removalOf('usage_refusals', 'account, start, key_id, code', 'start'),
  ],
};

function removalOf(table: string, keys: string, by: string): string {
  return `DELETE FROM ${table} WHERE (${keys}) IN (SELECT ${keys} FROM ${table} WHERE ${by} < :before LIMIT :limit)`;
}

/**
 * Removes old usage in pieces that hold the lock of all writers for some milliseconds: records first, then details, then sums, because sums
 * list the months.
 */
function createRemoveUsage(
  database: DatabaseSync,
  { write }: Pick<SqliteCalls, 'write'>,
): Pick<UsageTables, keyof typeof removals> {
  let piece = piecesMin;

  function removePiece(statements: readonly StatementSync[], before: string): number {
    const startedAt = performance.now();
    for (const statement of statements) {
      const removed = Number(statement.run({ before, limit: piece }).changes);
      if (removed === 0) continue;
      const factor = pieceMsWanted / Math.max(0.1, performance.now() - startedAt);
      piece = Math.round(Math.min(piecesMax, Math.max(piecesMin, piece * Math.min(2, factor))));
      return removed;
    }
    return 0;
  }

  function removeBy(texts: readonly string[]) {
    const statements = texts.map((text) => database.prepare(text));
    return async (before: string): Promise<number> => {
      const removed = await write(() => removePiece(statements, before));
      await nextTurn();
      return removed;
    };
  }

  return {
    removeBefore: removeBy(removals.removeBefore),
    removeHoursBefore: removeBy(removals.removeHoursBefore),
  };
}
