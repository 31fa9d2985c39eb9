import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { storedJson } from '../../json/stored-values.ts';
import {
  type Collection,
  captureDecision,
  type Decision,
  type Documents,
  type Index,
  isListIndex,
  type Query,
  type Use,
  valueAt,
  valuesIn,
  withAdded,
} from '../documents.ts';
import { inPieces, type Page, type PageQuery, readList } from '../lists.ts';
import type { SqliteCalls } from './sqlite-calls.ts';
import { at, createSelect, listTable, type Prepare, type Select } from './sqlite-select.ts';

/** Characters of texts in one transaction or one read; more would block the process for too long. A single text can exceed this. */
const charactersAtOnce = 1_048_576;
const [rowsAtOnce, idsAtOnce] = [100, 2_000];

/** Documents in one table: JSON in a column, without the fields with times of uses, and without the long text. */
export function createSqliteDocuments<Document extends object, Name extends string>(
  database: DatabaseSync,
  calls: SqliteCalls,
  collection: Collection<Document, Name>,
): Documents<Document, Name> {
  const prepare = createPrepare(database);
  const rows = createRows(prepare, collection);
  const selectOf = (index: string) => createSelect(prepare, collection, index);
  return {
    ...createReads(calls, collection, { rows, selectOf }),
    ...createWrites(calls, collection, { rows, selectOf }),
  };
}

type Parts<Document extends object> = { rows: Rows<Document>; selectOf: (index: string) => Select };

function createReads<Document extends object, Name extends string>(
  calls: SqliteCalls,
  collection: Collection<Document, Name>,
  { rows, selectOf }: Parts<Document>,
) {
  /** Ids are read from the index. Other fields are in the rows: SQLite reads all of them. */
  function isIdOnly(fields: readonly string[] | undefined): boolean {
    return fields?.every((field) => field === collection.id) ?? false;
  }

  function readPage(select: Select, query: PageQuery): Page {
    const { limit, fields, charactersMax = charactersAtOnce } = query;
    const places = select.places(query);
    const found: Record<string, unknown>[] = [];
    let characters = 0;
    for (const [number, place] of places.entries()) {
      const row = isIdOnly(fields) ? undefined : rows.read(place.id);
      found.push(row === undefined ? { [collection.id]: place.id } : rows.fieldsOf(row));
      characters += row?.text?.length ?? 0;
      const isFull = characters >= Math.min(charactersAtOnce, charactersMax) && number + 1 < places.length;
      if (isFull) return { found, characters, next: place };
    }
    return { found, characters, next: places.length < limit ? undefined : places.at(-1) };
  }

  function list(index: Name | 'id', fields: readonly string[] | undefined, query: Query): Promise<Document[]> {
    const select = selectOf(index);
    const readOne = (page: PageQuery) => calls.read(() => readPage(select, page));
    const atOnce = isIdOnly(fields) ? idsAtOnce : (collection.atOnce ?? rowsAtOnce);
    return readList(collection, index, query, { fields, atOnce, next: select.next(query.is), readPage: readOne });
  }

  return {
    find: (id) => calls.read(() => rows.find(id)),

    async findAll(ids) {
      const found = new Map<string, Document>();
      for (let from = 0; from < ids.length; from += rowsAtOnce) {
        const piece = await calls.read(() =>
          ids.slice(from, from + rowsAtOnce).map((id) => [id, rows.find(id)] as const),
        );
        for (const [id, kept] of piece) if (kept !== undefined) found.set(id, kept);
      }
      return found;
    },

    list: (index, query) => list(index, undefined, query),
    listFields: list,
    tally: (index, query) => calls.read(() => selectOf(index).tally(query)),
  } satisfies Partial<Documents<Document, Name>>;
}

function createWrites<Document extends object, Name extends string>(
  calls: SqliteCalls,
  { id: idField, text: textField }: Collection<Document, Name>,
  { rows, selectOf }: Parts<Document>,
) {
  const lengthOf = (kept: Document) => (textField === undefined ? 0 : String(valueAt(kept, textField) ?? '').length);

  function apply<Result>(id: string, { result, next, isRemoved }: Decision<Document, Result>): Result {
    if (next !== undefined) rows.write(next);
    else if (isRemoved) rows.remove(id);
    return result;
  }

  return {
    async insert(documents) {
      const refused: string[] = [];
      for (const piece of inPieces(documents, { count: rowsAtOnce, length: charactersAtOnce, lengthOf })) {
        const others = await calls.write(() => piece.filter((kept) => !rows.insert(kept)));
        refused.push(...others.map((kept) => String(valueAt(kept, idField))));
        await nextTurn();
      }
      return refused;
    },

    /** Decides on a plain read first: the lock that all writers share is taken only if there is something to write. */
    async change(id, decide) {
      const decideSafely = captureDecision(decide);
      const { result, next, isRemoved } = await calls.read(() => decideSafely(rows.find(id)));
      if (next !== undefined || isRemoved) return (await calls.write(() => apply(id, decideSafely(rows.find(id)))))();
      await calls.untilDurable();
      return result();
    },

    add: (id, amounts, maxima) =>
      calls.write(() => {
        const kept = rows.find(id);
        const next = kept && withAdded(kept, amounts, maxima);
        if (next !== undefined) rows.write(next);
        return next !== undefined;
      }),

    async remove(ids) {
      await calls.write(() => ids.forEach(rows.remove));
    },

    async removeSome(index, { limit, ...query }) {
      const found = await calls.write(() => {
        const part = { fields: undefined, after: undefined, limit: Math.min(limit, rowsAtOnce), isWhole: false };
        const page = { ...query, ...part };
        let [bytes, removed] = [0, 0];
        for (const { id } of selectOf(index).places(page)) {
          if (bytes >= charactersAtOnce) break;
          bytes += rows.textBytes(id);
          removed += rows.remove(id);
        }
        return removed;
      });
      await nextTurn();
      return found;
    },

    async noteUses(noted) {
      if (noted.length > 0) await calls.write(() => noted.forEach(rows.noteUse));
    },
  } satisfies Partial<Documents<Document, Name>>;
}

function createPrepare(database: DatabaseSync): Prepare {
  const statements = new Map<string, StatementSync>();
  return (sql) => {
    const known = statements.get(sql);
    if (known !== undefined) return known;
    const prepared = database.prepare(sql);
    statements.set(sql, prepared);
    return prepared;
  };
}

const rowSchema = z.object({ id: z.string(), document: z.string(), text: z.string().nullable() });
const foundRowSchema = rowSchema.optional();
type Row = z.infer<typeof rowSchema>;

const documentSchema = storedJson.pipe(z.record(z.string(), z.unknown()));
const bytesSchema = z.object({ bytes: z.int() });
const useSchema = z.object({ usedAt: z.int().nullable() }).optional();

/** The table and the indexes of a collection. An index over a list is a table, whose rows also have when their value was last used. */
export function tablesOf({ name, indexes, text }: Pick<Collection, 'name' | 'indexes' | 'text'>): string {
  const table = `CREATE TABLE ${name} (id TEXT NOT NULL PRIMARY KEY,
    document TEXT NOT NULL CHECK (json_valid(document))${text === undefined ? '' : ', text TEXT'}) STRICT;`;
  return [table, ...Object.entries<Index>(indexes).map(([index, spec]) => indexOf(name, index, spec))].join('\n');
}

function indexOf(table: string, name: string, index: Index): string {
  if (isListIndex(index)) {
    const key = index.isUnique ? 'value' : 'value, id';
    return `CREATE TABLE ${listTable(table, name)} (value TEXT NOT NULL, id TEXT NOT NULL, used_at INTEGER,
      PRIMARY KEY (${key})) STRICT, WITHOUT ROWID;`;
  }
  const { fields, also = [], isSparse, isUnique } = index;
  const columns = [...fields, ...also].map(at);
  const where = isSparse ? ` WHERE ${columns[0]} IS NOT NULL` : '';
  const all = [...columns, ...(isUnique ? [] : ['id'])].join(', ');
  return `CREATE ${isUnique ? 'UNIQUE ' : ''}INDEX ${table}_${name} ON ${table} (${all})${where};`;
}

/** Reads and writes single rows, within a call. */
type Rows<Document extends object> = ReturnType<typeof createRows<Document>>;

function createRows<Document extends object>(prepare: Prepare, collection: Collection<Document>) {
  const { name: table, schema, id: idField, text: textField, uses } = collection;
  const lists = createLists(prepare, collection);
  const usesTable = listTable(table, uses?.index);
  const columns = ['id', 'document', ...(textField === undefined ? [] : ['text'])];
  const insert = `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${columns.map((name) => `:${name}`).join(', ')})`;
  const selectRow = `SELECT id, document, ${textField === undefined ? 'NULL AS text' : 'text'} FROM ${table} WHERE id = ?`;
  const setUse = `UPDATE ${usesTable} SET used_at = max(coalesce(used_at, 0), :at) WHERE value = :value AND id = :id`;

  function toRow(kept: Document): Record<string, string | null> & { id: string } {
    const { [textField ?? '']: text, [uses?.field ?? '']: _, ...fields }: Record<string, unknown> = schema.parse(kept);
    const row = { id: String(fields[idField]), document: JSON.stringify(fields) };
    return textField === undefined ? row : { ...row, text: text as string | null }; // declared as a text
  }

  function read(id: string): Row | undefined {
    return foundRowSchema.parse(prepare(selectRow).get(id));
  }

  /** Adds what is kept apart. */
  function fieldsOf({ id, document, text }: Row): Record<string, unknown> {
    const fields = documentSchema.parse(document);
    if (textField !== undefined) fields[textField] = text;
    if (uses !== undefined) fields[uses.field] = lists.usesOf(id, fields);
    return fields;
  }

  return {
    read,
    fieldsOf,

    find(id: string): Document | undefined {
      const row = read(id);
      return row && schema.parse(fieldsOf(row));
    },

    /** Returns false if there is one with this id, or with one of its unique values. */
    insert(kept: Document): boolean {
      const row = toRow(kept);
      if (lists.isTaken(kept)) return false;
      if (prepare(`${insert} ON CONFLICT DO NOTHING`).run(row).changes === 0) return false;
      lists.write(row.id, kept, undefined);
      return true;
    },

    write(next: Document): void {
      const row = toRow(next);
      const before = lists.isEmpty ? undefined : read(row.id);
      const set = columns.map((name) => `${name} = excluded.${name}`).join(', ');
      prepare(`${insert} ON CONFLICT (id) DO UPDATE SET ${set}`).run(row);
      lists.write(row.id, next, before && documentSchema.parse(before.document));
    },

    /** Returns 1 if there was one. */
    remove(id: string): number {
      const before = lists.isEmpty ? undefined : read(id);
      if (before !== undefined) lists.write(id, undefined, documentSchema.parse(before.document));
      return Number(prepare(`DELETE FROM ${table} WHERE id = ?`).run(id).changes);
    },

    textBytes(id: string): number {
      if (textField === undefined) return 0;
      const row = prepare(`SELECT coalesce(octet_length(text), 0) AS bytes FROM ${table} WHERE id = ?`).get(id);
      return bytesSchema.parse(row).bytes;
    },

    noteUse({ id, value, at: usedAt }: Use): void {
      prepare(setUse).run({ id, value, at: usedAt.getTime() });
    },
  };
}

/** The tables of the indexes over lists. The document says which rows it has. */
function createLists<Document extends object>(prepare: Prepare, { name, indexes, uses }: Collection<Document>) {
  const lists = Object.entries<Index>(indexes).flatMap(([index, spec]) =>
    isListIndex(spec) ? [{ list: listTable(name, index), index: spec, hasUses: index === uses?.index }] : [],
  );
  return {
    isEmpty: lists.length === 0,

    isTaken: (document: object): boolean =>
      lists.some(({ list, index }) => {
        const values = index.isUnique ? valuesIn(document, index) : [];
        return values.some((value) => prepare(`SELECT 1 FROM ${list} WHERE value = ?`).get(value) !== undefined);
      }),

    write(id: string, next: object | undefined, before: object | undefined): void {
      for (const { list, index } of lists) {
        const [values, known] = [valuesIn(next, index), valuesIn(before, index)];
        for (const value of known)
          if (!values.includes(value)) prepare(`DELETE FROM ${list} WHERE value = ? AND id = ?`).run(value, id);
        for (const value of values)
          if (!known.includes(value)) prepare(`INSERT INTO ${list} (value, id) VALUES (?, ?)`).run(value, id);
      }
    },

    usesOf(id: string, document: object): Record<string, Date> {
      const found = lists
        .filter(({ hasUses }) => hasUses)
        .flatMap(({ list, index }) => valuesIn(document, index).map((value) => ({ list, value })))
        .map(({ list, value }) => {
          const row = prepare(`SELECT used_at AS usedAt FROM ${list} WHERE value = ? AND id = ?`).get(value, id);
          return { value, usedAt: useSchema.parse(row)?.usedAt };
        });
      return Object.fromEntries(
        found.flatMap(({ value, usedAt }) => (usedAt == null ? [] : [[value, new Date(usedAt)]])),
      );
    },
  };
}
