import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { byDetail, countsOf, type DetailBatch, type UsageDetail } from '../usage/usage-details.ts';
import {
  countNames,
  detailCountNames,
  detailCountsSchema,
  type MonthBatch,
  totalOf,
  type UsageMonth,
  type UsageSum,
  usageCountsSchema,
} from '../usage/usage-sums.ts';
import type { DetailChange, DetailPage, KeptDetail, KeptSum, UsageTables } from '../usage/usage-tables.ts';

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

const selectPage = (start: string) => `${selectOf(details)}
  WHERE account = :account AND month = :month AND ${start} AND (:ofKey IS NULL OR key_id = :ofKey)
  ORDER BY day, model, key_id, endpoint LIMIT :limit`;

const selectOfMonth = `${selectOf(details)}
  WHERE month = :month AND (account, day, model, key_id, endpoint) > (:account, :day, :model, :keyId, :endpoint)
  ORDER BY account, day, model, key_id, endpoint LIMIT :limit`;

type MonthPage = Parameters<UsageTables['readMonthDetails']>[1];

const beforeAll = { account: '', day: '', model: '', keyId: '', endpoint: '' };

/** Details as rows. The caller runs writes in a transaction. */
function createSqliteDetails(database: DatabaseSync) {
  const after = database.prepare(selectPage('(day, model, key_id, endpoint) > (:day, :model, :keyId, :endpoint)'));
  const [fromDay, ofMonth] = [database.prepare(selectPage('day >= :day')), database.prepare(selectOfMonth)];
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
export function createSqliteSums(database: DatabaseSync) {
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
