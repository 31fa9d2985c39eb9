import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import {
  compare,
  countNames,
  detailCountNames,
  detailCountsSchema,
  type MonthBatch,
  type SummedRecord,
  totalOf,
  type UsageMonth,
  type UsageSum,
  usageCountsSchema,
} from '../usage/usage-record.ts';
import {
  byDetail,
  countsOf,
  type DetailBatch,
  type DetailChange,
  type DetailPage,
  type DetailPlace,
  type HourGroup,
  type HourSum,
  hourGroups,
  hourPlacesMax,
  type KeptDetail,
  type KeptSum,
  placeOf,
  type Refusals,
  restOf,
  startOf,
  type UsageDetail,
  type UsageTables,
  type UsageUnit,
} from '../usage/usage-tables.ts';

/** A table of counts. `keys` say of what. `indexes` are of one column each. */
type SumTable = { table: string; keys: readonly string[]; counts: readonly string[]; indexes: readonly string[] };

const placeKeys = ['account', 'month', 'start', 'model', 'keyId', 'endpoint', 'code'] as const;

const sums: SumTable = { table: 'usage_sums', keys: ['account', 'month'], counts: countNames, indexes: ['month'] };
const details: Record<UsageUnit, SumTable> = {
  day: { table: 'usage_days', keys: placeKeys, counts: detailCountNames, indexes: ['month'] },
  hour: { table: 'usage_hours', keys: placeKeys, counts: detailCountNames, indexes: ['month', 'start'] },
};
const refusals: SumTable = {
  table: 'usage_refusals',
  keys: ['account', 'start', 'keyId', 'code'],
  counts: ['requests'],
  indexes: ['start'],
};

/** The column of a field. */
function columnOf(field: string): string {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function columnsOf(fields: readonly string[]): string {
  return fields.map(columnOf).join(', ');
}

export const usageTables: string = [sums, details.day, details.hour, refusals]
  .map(({ table, keys, counts, indexes }) => {
    const texts = [...keys, 'lastEntry'].map((field) => `${columnOf(field)} TEXT NOT NULL`);
    const numbers = ['repairs', ...counts].map((field) => `${columnOf(field)} INTEGER NOT NULL`);
    return [
      `CREATE TABLE ${table} (${[...texts, ...numbers].join(', ')}, PRIMARY KEY (${columnsOf(keys)})) STRICT, WITHOUT ROWID`,
      ...indexes.map((column) => `CREATE INDEX ${table}_by_${column} ON ${table} (${column})`),
    ].join(';\n');
  })
  .join(';\n');

/** `add` and `repair` write the row, or change the one with the same keys. `isGuarded`: `add` changes only a row before `:firstEntry`. */
function statementsOf(
  database: DatabaseSync,
  { table, keys, counts }: SumTable,
  { isGuarded }: { isGuarded: boolean },
) {
  const fields = [...keys, 'lastEntry', ...counts];
  const insert = `INSERT INTO ${table} (${columnsOf(fields)}, repairs) VALUES (${fields.map((field) => `:${field}`).join(', ')}, 0)
    ON CONFLICT (${columnsOf(keys)}) DO UPDATE SET last_entry = excluded.last_entry`;
  const added = counts.map(columnOf).map((column) => `${column} = ${column} + excluded.${column}`);
  const repaired = counts.map(columnOf).map((column) => `${column} = excluded.${column}`);
  const at = keys.map((key) => `${columnOf(key)} = :${key}`).join(' AND ');
  const condition = isGuarded ? `WHERE ${table}.last_entry < :firstEntry` : '';
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
const sumRow = guardRow.unwrap().extend(usageCountsSchema.shape).optional();
const textColumns = <Name extends string>(names: readonly Name[]) =>
  Object.fromEntries(names.map((name) => [name, z.string()])) as Record<Name, z.ZodString>; // all of them
const detailRow = guardRow.unwrap().extend({ ...textColumns(placeKeys), ...detailCountsSchema.shape });

/** The place as the values of its columns: the unit says in which table it is. */
function valuesOf({ account, month, start, model, keyId, endpoint, code }: DetailPlace) {
  return { account, month, start, model, keyId, endpoint, code };
}

function readDetail(row: unknown, unit: UsageUnit): KeptDetail {
  const { repairs, lastEntry, account, month, start, model, keyId, endpoint, code, ...counts } = detailRow.parse(row);
  const place = { account, month, unit, start, model, keyId, endpoint, code };
  return { detail: { ...place, lastEntry, counts }, repairs };
}

const places = '(start, model, key_id, endpoint, code)';
const afterPlace = `${places} > (:start, :model, :keyId, :endpoint, :code)`;
const selectDetails = (table: SumTable, start: string) => `${selectOf(table)}
  WHERE account = :account AND month = :month AND ${start} AND (:ofKey IS NULL OR key_id = :ofKey)
  ORDER BY start, model, key_id, endpoint, code LIMIT :limit`;

const selectOfMonth = `${selectOf(details.day)}
  WHERE month = :month AND (account, start, model, key_id, endpoint, code) > (:account, :start, :model, :keyId, :endpoint, :code)
  ORDER BY account, start, model, key_id, endpoint, code LIMIT :limit`;

type MonthPage = Parameters<UsageTables['readMonthDetails']>[1];

const beforeAll = { account: '', start: '', model: '', keyId: '', endpoint: '', code: '' };

/** Details as rows. The caller runs writes in a transaction. */
function createSqliteDetails(database: DatabaseSync) {
  const statements = (unit: UsageUnit) => ({
    after: database.prepare(selectDetails(details[unit], afterPlace)),
    from: database.prepare(selectDetails(details[unit], 'start >= :start')),
    ...statementsOf(database, details[unit], { isGuarded: true }),
  });
  const of = { day: statements('day'), hour: statements('hour') };
  const ofMonth = database.prepare(selectOfMonth);
  const countHour = database.prepare(
    'SELECT count(*) AS places FROM usage_hours WHERE account = :account AND month = :month AND start = :start',
  );

  /** Adds records that the detail does not contain yet; returns false if it was already past some of them. */
  function add(batch: DetailBatch): boolean {
    const { unit, unsummed, lastEntry } = batch;
    const place = valuesOf(batch);
    const addRest = (rest: DetailBatch['unsummed']) =>
      of[unit].add.run({ ...place, lastEntry, firstEntry: rest[0]?.entry ?? '', ...countsOf(rest) }).changes === 1;
    if (addRest(unsummed)) return true;
    const reached = guardRow.parse(of[unit].guard.get(place))?.lastEntry ?? '';
    const rest = unsummed.filter(({ entry }) => entry > reached);
    if (rest.length > 0) addRest(rest);
    return false;
  }

  function mayCount(batch: DetailBatch): boolean {
    const place = valuesOf(batch);
    if (of.hour.guard.get(place) !== undefined) return true;
    const { account, month, start } = place;
    return countRow.parse(countHour.get({ account, month, start })).places < hourPlacesMax;
  }

  /** Adds the records of a month to the details of their hours. Returns false as `add` does. */
  function addHours(month: UsageMonth, records: readonly SummedRecord[]): boolean {
    const left: SummedRecord[] = [];
    let isAdded = true;
    for (const batch of byDetail(records, (record) => placeOf(month, record, 'hour'))) {
      if (!mayCount(batch)) left.push(...batch.unsummed);
      else if (!add(batch)) isAdded = false;
    }
    left.sort((one, other) => compare(one.entry, other.entry));
    for (const batch of byDetail(left, (record) => restOf(placeOf(month, record, 'hour'))))
      if (!add(batch)) isAdded = false;
    return isAdded;
  }

  return {
    /** Adds records of a month to details. Returns false if one was already past some of them. */
    add(month: UsageMonth, records: readonly SummedRecord[], hoursFrom: string): boolean {
      const days = byDetail(records, (record) => placeOf(month, record, 'day')).filter((batch) => !add(batch));
      const ofHours = records.filter((record) => startOf(record, 'hour') >= hoursFrom);
      return addHours(month, ofHours) && days.length === 0;
    },

    /** Returns false if the detail has changed since it was read. */
    replace({ detail, kept }: DetailChange): boolean {
      const { counts, lastEntry, unit } = detail;
      const place = valuesOf(detail);
      const now = guardRow.parse(of[unit].guard.get(place));
      if (now?.lastEntry !== kept?.detail.lastEntry || now?.repairs !== kept?.repairs) return false;
      of[unit].repair.run({ ...place, lastEntry, ...counts });
      return true;
    },

    read({ account, month }: UsageMonth, { unit, limit, keyId: wanted, ...page }: DetailPage): KeptDetail[] {
      const bounds = { account, month, ofKey: wanted ?? null, limit };
      const rows =
        'from' in page
          ? of[unit].from.all({ ...bounds, start: page.from })
          : of[unit].after.all({ ...bounds, ...valuesOf(page.after) });
      return rows.map((row) => readDetail(row, unit));
    },

    readMonth(month: string, { after: last, limit }: MonthPage): UsageDetail[] {
      const place = last === undefined ? beforeAll : valuesOf(last);
      return ofMonth.all({ ...place, month, limit }).map((row) => readDetail(row, 'day').detail);
    },
    sumHour: createSumHour(database),
  };
}

/** Blocks the process for as long as the rows of one hour take. */
function createSumHour(database: DatabaseSync) {
  const counts = detailCountNames.map((name) => `sum(${columnOf(name)}) AS ${name}`);
  return function sumHour(hour: string, groups: readonly HourGroup[]): HourSum[] {
    const shown = hourGroups.map((name) => `${groups.includes(name) ? name : "''"} AS ${name}`);
    const by = groups.length === 0 ? '' : `GROUP BY ${groups.join(', ')}`;
    const rows = database
      .prepare(`SELECT ${[...shown, ...counts].join(', ')} FROM usage_hours WHERE start = ? ${by} HAVING count(*) > 0`)
      .all(hour);
    return rows.map((row) => {
      const { account, model, code, ...sum } = hourRow.parse(row);
      return { account, model, code, counts: sum };
    });
  };
}

const countRow = z.object({ places: z.int() });
const hourRow = z.object({ ...textColumns(hourGroups), ...detailCountsSchema.shape });
const refusalKeys = ['account', 'start', 'keyId', 'code'] as const;
const refusalsRow = z.object({ ...textColumns(refusalKeys), requests: z.int(), lastEntry: z.string() });
const refusalSum = z.object({ account: z.string(), code: z.string(), requests: z.int() });

/** Refusals as rows. The caller runs writes in a transaction. */
function createSqliteRefusals(database: DatabaseSync) {
  const { add } = statementsOf(database, refusals, { isGuarded: true });
  const ofAccount = database.prepare(
    `${selectOf(refusals)} WHERE account = ? AND start >= ? AND start <= ? ORDER BY start, key_id, code`,
  );
  const ofHour = database.prepare(
    "SELECT '' AS account, code, sum(requests) AS requests FROM usage_refusals WHERE start = ? GROUP BY code",
  );
  const ofHourByAccount = database.prepare(
    'SELECT account, code, sum(requests) AS requests FROM usage_refusals WHERE start = ? GROUP BY account, code',
  );

  return {
    /** Adds those that the row does not contain yet. */
    add({ account, start, keyId, code, requests, entry }: Refusals): void {
      add.run({ account, start, keyId, code, requests, lastEntry: entry, firstEntry: entry });
    },
    read(account: string, { start, end }: { start: string; end: string }): Refusals[] {
      return ofAccount.all(account, start, end).map((row) => {
        const { lastEntry: entry, ...found } = refusalsRow.parse(row);
        return { ...found, entry };
      });
    },
    sum: (hour: string, groups: readonly HourGroup[]) =>
      (groups.includes('account') ? ofHourByAccount : ofHour).all(hour).map((row) => refusalSum.parse(row)),
  };
}

/** The usage of an account in a month, as one row, with its details and refusals. The caller runs writes in a transaction. */
export function createSqliteSums(database: DatabaseSync) {
  const inDetail = createSqliteDetails(database);
  const select = database.prepare(`${selectOf(sums)} WHERE account = :account AND month = :month`);
  const { guard, add, repair } = statementsOf(database, sums, { isGuarded: false });

  return {
    details: inDetail,
    refusals: createSqliteRefusals(database),

    read({ account, month }: UsageMonth): KeptSum | undefined {
      const row = sumRow.parse(select.get({ account, month }));
      if (row === undefined) return undefined;
      const { lastEntry, repairs, ...total } = row;
      return { sum: { account, month, lastEntry, total }, repairs };
    },

    /** Adds records that the sum and its details do not contain yet. Returns false if one of them was already past some records. */
    add({ account, month, unsummed, lastEntry }: MonthBatch, hoursFrom: string): boolean {
      const reached = guardRow.parse(guard.get({ account, month }))?.lastEntry ?? '';
      const rest = unsummed.filter(({ entry }) => entry > reached);
      if (rest.length === 0) return unsummed.length === 0;
      add.run({ account, month, lastEntry, ...totalOf([countsOf(rest)]) });
      const isInDetails = inDetail.add({ account, month }, rest, hoursFrom);
      return rest.length === unsummed.length && isInDetails;
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
