import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type Collection,
  captureDecision,
  type Decision,
  type Documents,
  type Query,
  valueAt,
  withAdded,
} from '../documents/documents.ts';
import { inPieces, type Page, type PageQuery, readList } from '../documents/lists.ts';
import type { SqliteCalls } from './sqlite-calls.ts';
import { createRows, type Rows } from './sqlite-rows.ts';
import { createSelect, type Prepare, type Select } from './sqlite-select.ts';

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
