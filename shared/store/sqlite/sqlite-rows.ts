import { z } from 'zod';
import { storedJson } from '../../stored-values.ts';
import { type Collection, type Index, isListIndex, type Use, valuesIn } from '../documents/documents.ts';
import { at, listTable, type Prepare } from './sqlite-select.ts';

const rowSchema = z.object({ id: z.string(), document: z.string(), text: z.string().nullable() });
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
export type Rows<Document extends object> = ReturnType<typeof createRows<Document>>;

export function createRows<Document extends object>(prepare: Prepare, collection: Collection<Document>) {
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
    return rowSchema.optional().parse(prepare(selectRow).get(id));
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
