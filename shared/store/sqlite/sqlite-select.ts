import type { StatementSync } from 'node:sqlite';
import { z } from 'zod';
import {
  type Collection,
  type FieldIndex,
  type IndexValue,
  isListIndex,
  type Query,
  type Tally,
  type TallyQuery,
} from '../documents.ts';
import { compareBytes, type PageQuery, type Place } from '../lists.ts';

export type Prepare = (sql: string) => StatementSync;

/** Finds documents by one index. It reads only the index. */
export type Select = {
  /** The path of the field that orders the list, after those that `is` has values of. */
  next(is: Query['is']): string;
  places(query: PageQuery): Place[];
  tally(query: TallyQuery): Tally[];
};

const talliesSchema = z.array(z.object({ value: z.unknown(), count: z.int(), sum: z.int(), least: z.unknown() }));

/**
 * The expression is the same in indexes and queries. With generated columns, SQLite would read the rows that an index already has all of.
 */
export function at(path: string): string {
  return `document ->> '$.${path}'`;
}

/** The table of an index over a list. */
export function listTable(table: string, index: string | undefined): string {
  return `${table}_${index}`;
}

/** Queries of an index, or of the ids. */
export function createSelect(prepare: Prepare, collection: Collection, name: string): Select {
  const { name: table, id: idField } = collection;
  if (name === 'id') return selectByFields(prepare, { source: table, idField }, { fields: [idField] });
  const index = collection.indexes[name];
  if (index === undefined) throw new Error(`${table} has no index ${name}`);
  if (isListIndex(index)) return selectInList(prepare, listTable(table, name), idField);
  // Without its name, SQLite might choose another one, and read more.
  return selectByFields(prepare, { source: `${table} INDEXED BY ${table}_${name}`, idField }, index);
}

type Source = { source: string; idField: string };

function selectByFields(prepare: Prepare, { source, idField }: Source, { fields, isSparse }: FieldIndex): Select {
  const nextOf = (is: Query['is'] = []) => fields[is.length] ?? idField;
  const columnOf = (path: string) => (path === idField ? 'id' : at(path));
  const equal = (values: readonly unknown[]) =>
    values.map((value, number) => {
      const column = columnOf(fields[number] ?? '');
      return Array.isArray(value) ? `${column} IN (SELECT value FROM json_each(?))` : `${column} = ?`;
    });

  function placesOf(values: Values, query: PageQuery): Place[] {
    const { from = isSparse && values.length === 0 ? '' : undefined, to, before, after, order = 'asc', limit } = query;
    const next = nextOf(values);
    const column = columnOf(next);
    const [isAfter, sorted] = order === 'asc' ? ['>', 'ASC'] : ['<', 'DESC'];
    const conditions: [condition: string, ...bound: unknown[]][] = [];
    if (from !== undefined) conditions.push([`${column} >= ?`, from]);
    if (to !== undefined) conditions.push([`${column} <= ?`, to]);
    if (before !== undefined) conditions.push([`${column} < ?`, before]);
    const isAlone = next === idField || isSparse === true; // no two documents have the same
    if (after !== undefined && isAlone)
      conditions.push([`${column} ${isAfter} ?`, next === idField ? after.id : after.value]);
    // SQLite finds the start by the first of these conditions only.
    if (after !== undefined && !isAlone)
      conditions.push(
        [`${column} ${isAfter}= ?`, after.value],
        [`(${column}, id) ${isAfter} (?, ?)`, after.value, after.id],
      );
    const where = [...equal(values), ...conditions.map(([condition]) => condition)].join(' AND ') || 'TRUE';
    const ordered = isAlone ? `${column} ${sorted}` : `${column} ${sorted}, id ${sorted}`;
    const sql = `SELECT id, ${next === idField ? 'NULL' : column} AS value FROM ${source} WHERE ${where} ORDER BY ${ordered} LIMIT ?`;
    const bound = [...values, ...conditions.flatMap(([, ...more]) => more)].map(bindable);
    return prepare(sql).all(...bound, limit) as Place[]; // of our own columns
  }

  function tallyOf(values: Values, { by, sum, least }: TallyQuery): Tally[] {
    const read = (path: string | undefined) => (path === undefined ? 'NULL' : columnOf(path));
    const where = [...equal(values), ...(isSparse && values.length === 0 ? [`${at(nextOf())} >= ''`] : [])];
    // The limit keeps SQLite from merging the two queries: then it would read the rows, and not only the index.
    const sql = `SELECT value, count(*) AS count, coalesce(sum(summed), 0) AS sum, min(least) AS least FROM
      (SELECT ${read(by)} AS value, ${read(sum)} AS summed, ${read(least)} AS least
        FROM ${source} WHERE ${where.join(' AND ')} LIMIT -1) GROUP BY value`;
    return talliesSchema.parse(prepare(sql).all(...values.map(bindable)));
  }

  return {
    next: nextOf,
    places(query) {
      // A page of each value has the first of all. Who reads all of them needs no pages of each.
      const isMerged = !query.isWhole && query.is?.some(Array.isArray) === true;
      if (!isMerged) return placesOf(query.is ?? [], query);
      const found = combinations(query.is).flatMap((values) => placesOf(values, query));
      const sign = query.order === 'desc' ? -1 : 1;
      const inOrder = (one: Place, other: Place) =>
        sign * (compareValues(one.value, other.value) || compareBytes(one.id, other.id));
      return found.toSorted(inOrder).slice(0, query.limit);
    },
    tally: (query) => tallyOf(query.is ?? [], query),
  };
}

/** A list index has no order but that of the ids, so all that are found are sorted. */
function selectInList(prepare: Prepare, list: string, idField: string): Select {
  return {
    next: () => idField,
    places({ is = [], from, to, before, after, order = 'asc', limit }) {
      const [isAfter, sorted] = order === 'asc' ? ['>', 'ASC'] : ['<', 'DESC'];
      const conditions: [condition: string, bound: unknown][] = [];
      if (is[0] !== undefined)
        conditions.push(['value IN (SELECT value FROM json_each(?))', JSON.stringify([is[0]].flat())]);
      if (from !== undefined) conditions.push(['value >= ?', from]);
      if (to !== undefined) conditions.push(['value <= ?', to]);
      if (before !== undefined) conditions.push(['value < ?', before]);
      if (after !== undefined) conditions.push([`id ${isAfter} ?`, after.id]);
      const where = conditions.map(([condition]) => condition).join(' AND ') || 'TRUE';
      const sql = `SELECT DISTINCT id, NULL AS value FROM ${list} WHERE ${where} ORDER BY id ${sorted} LIMIT ?`;
      return prepare(sql).all(...conditions.map(([, bound]) => bindable(bound)), limit) as Place[]; // of our own columns
    },
    tally() {
      throw new Error('a list index has no tally');
    },
  };
}

type Values = readonly (IndexValue | readonly IndexValue[])[];

/** Each combination of one value of each field. */
function combinations(is: Query['is'] = []): IndexValue[][] {
  return is.reduce<IndexValue[][]>(
    (found, value) => found.flatMap((values) => [value].flat().map((one) => [...values, one as IndexValue])),
    [[]],
  );
}

/** As SQLite orders what an index has. */
function compareValues(one: unknown, other: unknown): number {
  if (typeof one === 'string' && typeof other === 'string') return compareBytes(one, other);
  return Number(one) - Number(other);
}

/** In JSON, times are ISO 8601 text, and `->>` makes 1 and 0 of true and false. */
function bindable(value: unknown): string | number | null {
  if (value instanceof Date) return value.toISOString();
  if (typeof value === 'boolean') return Number(value);
  if (Array.isArray(value)) return JSON.stringify(value.map(bindable));
  return value as string | number | null; // the other values of an index
}
