import type { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { storedJson } from '../../json/stored-values.ts';
import { compareBytes } from '../lists.ts';
import {
  byMonth,
  countNames,
  detailCountNames,
  detailCountsSchema,
  type MonthBatch,
  summedRecordSchema,
  totalOf,
  type UsageMonth,
  type UsageRecord,
  type UsageSum,
  usageCountsSchema,
  usageRecordSchema,
} from '../usage/usage-record.ts';
import {
  byDetail,
  countsOf,
  type DetailBatch,
  type DetailChange,
  type DetailPage,
  type DoubtfulMonth,
  type KeptDetail,
  type KeptSum,
  type UsageDetail,
  type UsageTables,
} from '../usage/usage-tables.ts';
import type { SqliteCalls } from './sqlite-calls.ts';

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

/** A table of counts. `keys` say of what. */
type SumTable = { table: string; keys: readonly string[]; counts: readonly string[] };

const sums: SumTable = { table: 'usage_sums', keys: ['account', 'month'], counts: countNames };
const details: SumTable = {
  table: 'usage_details',
  keys: ['account', 'month', 'day', 'model', 'keyId', 'endpoint'],
  counts: detailCountNames,
};

/** The column of a field. */
function columnOf(field: string): string {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function columnsOf(fields: readonly string[]): string {
  return fields.map(columnOf).join(', ');
}

export const usageTables: string = [sums, details]
  .map(({ table, keys, counts }) => {
    const texts = [...keys, 'lastEntry'].map((field) => `${columnOf(field)} TEXT NOT NULL`);
    const numbers = ['repairs', ...counts].map((field) => `${columnOf(field)} INTEGER NOT NULL`);
    return `CREATE TABLE ${table} (${[...texts, ...numbers].join(', ')}, PRIMARY KEY (${columnsOf(keys)})) STRICT, WITHOUT ROWID;
      CREATE INDEX ${table}_by_month ON ${table} (month);`;
  })
  .join('\n');

/** `add` and `repair` write the row, or change the one with the same keys. */
function statementsOf(database: DatabaseSync, { table, keys, counts }: SumTable, condition = '') {
  const fields = [...keys, 'lastEntry', ...counts];
  const insert = `INSERT INTO ${table} (${columnsOf(fields)}, repairs) VALUES (${fields.map((field) => `:${field}`).join(', ')}, 0)
    ON CONFLICT (${columnsOf(keys)}) DO UPDATE SET last_entry = excluded.last_entry`;
  const added = counts.map(columnOf).map((column) => `${column} = ${column} + excluded.${column}`);
  const repaired = counts.map(columnOf).map((column) => `${column} = excluded.${column}`);
  const at = keys.map((key) => `${columnOf(key)} = :${key}`).join(' AND ');
  return {
    guard: database.prepare(`SELECT last_entry AS lastEntry, repairs FROM ${table} WHERE ${at}`),
    add: database.prepare(`${[insert, ...added].join(', ')} ${condition}`),
    repair: database.prepare([insert, 'repairs = repairs + 1', ...repaired].join(', ')),
  };
}

function selectOf({ table, keys, counts }: SumTable): string {
  const fields = [...keys, 'lastEntry', 'repairs', ...counts].map((field) => `${columnOf(field)} AS ${field}`);
  return `SELECT ${fields.join(', ')} FROM ${table}`;
}

const guardRow = z.object({ lastEntry: z.string(), repairs: z.int() }).optional();
const sumRow = guardRow.unwrap().extend(usageCountsSchema.shape);
const detailRow = guardRow
  .unwrap()
  .extend({ ...Object.fromEntries(details.keys.map((key) => [key, z.string()])) } as Record<DetailKey, z.ZodString>)
  .extend(detailCountsSchema.shape)
  .transform(({ repairs, account, month, day, model, keyId, endpoint, lastEntry, ...counts }): KeptDetail => {
    return { detail: { account, month, day, model, keyId, endpoint, lastEntry, counts }, repairs };
  });
type DetailKey = 'account' | 'month' | 'day' | 'model' | 'keyId' | 'endpoint';

const selectDetails = (start: string) => `${selectOf(details)}
  WHERE account = :account AND month = :month AND ${start} AND (:ofKey IS NULL OR key_id = :ofKey)
  ORDER BY day, model, key_id, endpoint LIMIT :limit`;

const selectOfMonth = `${selectOf(details)}
  WHERE month = :month AND (account, day, model, key_id, endpoint) > (:account, :day, :model, :keyId, :endpoint)
  ORDER BY account, day, model, key_id, endpoint LIMIT :limit`;

type MonthPage = Parameters<UsageTables['readMonthDetails']>[1];

const beforeAll = { account: '', day: '', model: '', keyId: '', endpoint: '' };

/** Details as rows. The caller runs writes in a transaction. */
function createSqliteDetails(database: DatabaseSync) {
  const after = database.prepare(selectDetails('(day, model, key_id, endpoint) > (:day, :model, :keyId, :endpoint)'));
  const [fromDay, ofMonth] = [database.prepare(selectDetails('day >= :day')), database.prepare(selectOfMonth)];
  const { guard, add, repair } = statementsOf(database, details, 'WHERE usage_details.last_entry < :firstEntry');

  return {
    /** Adds records that the detail does not contain yet; returns false if it was already past some of them. */
    add(batch: DetailBatch): boolean {
      const { account, month, day, model, keyId, endpoint, unsummed, lastEntry } = batch;
      const place = { account, month, day, model, keyId, endpoint };
      const addRest = (rest: DetailBatch['unsummed']) =>
        add.run({ ...place, lastEntry, firstEntry: rest[0]?.entry ?? '', ...countsOf(rest) }).changes === 1;
      if (addRest(unsummed)) return true;
      const reached = guardRow.parse(guard.get(place))?.lastEntry ?? '';
      const rest = unsummed.filter(({ entry }) => entry > reached);
      if (rest.length > 0) addRest(rest);
      return false;
    },

    /** Returns false if the detail has changed since it was read. */
    replace({ detail, kept }: DetailChange): boolean {
      const { counts, lastEntry, account, month, day, model, keyId, endpoint } = detail;
      const now = guardRow.parse(guard.get({ account, month, day, model, keyId, endpoint }));
      if (now?.lastEntry !== kept?.detail.lastEntry || now?.repairs !== kept?.repairs) return false;
      repair.run({ account, month, day, model, keyId, endpoint, lastEntry, ...counts });
      return true;
    },

    read({ account, month }: UsageMonth, { limit, keyId: wanted, ...page }: DetailPage): KeptDetail[] {
      const bounds = { account, month, ofKey: wanted ?? null, limit };
      if ('fromDay' in page) return fromDay.all({ ...bounds, day: page.fromDay }).map((row) => detailRow.parse(row));
      const { day, model, keyId, endpoint } = page.after;
      return after.all({ ...bounds, day, model, keyId, endpoint }).map((row) => detailRow.parse(row));
    },

    readMonth(month: string, { after: last, limit }: MonthPage): UsageDetail[] {
      const { account, day, model, keyId, endpoint } = last ?? beforeAll;
      const rows = ofMonth.all({ month, account, day, model, keyId, endpoint, limit });
      return rows.map((row) => detailRow.parse(row).detail);
    },
  };
}

/** The usage of an account in a month, as one row, and its details. The caller runs writes in a transaction. */
function createSqliteSums(database: DatabaseSync) {
  const inDetail = createSqliteDetails(database);
  const select = database.prepare(`${selectOf(sums)} WHERE account = :account AND month = :month`);
  const { guard, add, repair } = statementsOf(database, sums);

  return {
    details: inDetail,

    read({ account, month }: UsageMonth): KeptSum | undefined {
      const row = sumRow.optional().parse(select.get({ account, month }));
      if (row === undefined) return undefined;
      const { lastEntry, repairs, ...total } = row;
      return { sum: { account, month, lastEntry, total }, repairs };
    },

    /** Adds records that the sum and its details do not contain yet. Returns false if one of them was already past some records. */
    add({ account, month, unsummed, lastEntry }: MonthBatch): boolean {
      const reached = guardRow.parse(guard.get({ account, month }))?.lastEntry ?? '';
      const rest = unsummed.filter(({ entry }) => entry > reached);
      if (rest.length === 0) return unsummed.length === 0;
      add.run({ account, month, lastEntry, ...totalOf([countsOf(rest)]) });
      const passed = byDetail({ account, month }, rest).filter((batch) => !inDetail.add(batch));
      return rest.length === unsummed.length && passed.length === 0;
    },

    /** Returns false if the sum has changed since it was read. */
    replace({ account, month, lastEntry, total }: UsageSum, kept: KeptSum | undefined): boolean {
      const now = guardRow.parse(guard.get({ account, month }));
      if (now?.lastEntry !== kept?.sum.lastEntry || now?.repairs !== kept?.repairs) return false;
      repair.run({ account, month, lastEntry, ...total });
      return true;
    },
  };
}
