import { type Collection as MongoCollection, MongoServerError } from 'mongodb';
import { type Collection, type Index, isListIndex, valuesIn } from '../documents/documents.ts';
import { valueTaken } from '../documents/store-errors.ts';
import type { MongoCalls } from './mongo-calls.ts';
import { duplicateKey } from './mongo-indexes.ts';

export type StoredDocument = Record<string, unknown> & { _id: string; revision: number };

/** Reads and writes single documents, within a call. */
export type Access<Document extends object> = ReturnType<typeof createAccess<Document>>;

export function createAccess<Document extends object>(
  { durable, database }: MongoCalls,
  collection: Collection<Document>,
) {
  const { name, schema, id: idField, uses } = collection;
  // The driver would write an undefined field as null.
  const documents: MongoCollection<StoredDocument> = database.collection(name, { ignoreUndefined: true });
  const { toFields, toUpdate } = createWriting(collection);

  function fieldsOf({ _id, revision: _, ...fields }: StoredDocument): Record<string, unknown> {
    return { ...fields, [idField]: _id };
  }

  async function removeUnchanged({ _id, revision, ...before }: StoredDocument): Promise<boolean> {
    const used = uses && { [uses.field]: before[uses.field] ?? { $exists: false } };
    return (await documents.deleteOne({ _id, revision, ...used })).deletedCount === 1;
  }

  return {
    documents,
    toFields,

    fieldsOf,
    keptOf: (stored: StoredDocument): Document => schema.parse(fieldsOf(stored)),

    read: async (id: string): Promise<StoredDocument | undefined> =>
      (await documents.findOne({ _id: id }, durable())) ?? undefined,

    /** Returns false if the document has changed since. */
    async write(next: Document | undefined, before: StoredDocument | undefined): Promise<boolean> {
      if (next === undefined) return before !== undefined && removeUnchanged(before);
      const fields = toFields(next);
      try {
        if (before === undefined) return (await documents.insertOne({ ...fields, revision: 1 })).acknowledged;
        const guard = { _id: before._id, revision: before.revision };
        return (await documents.updateOne(guard, toUpdate(next, before))).matchedCount === 1;
      } catch (error) {
        if (!(error instanceof MongoServerError) || error.code !== duplicateKey) throw error;
        // An insert also fails like this if the document was created in the meantime, durable or not. The error messages differ between
        // servers.
        const local = { readConcern: { level: 'local' as const } };
        if (before === undefined && (await documents.findOne({ _id: fields._id }, local)) !== null) return false;
        throw valueTaken(error);
      }
    },
  };
}

/** What is written of a document. */
function createWriting<Document extends object>({ schema, id: idField, indexes, uses }: Collection<Document>) {
  const lists = Object.entries<Index>(indexes).flatMap(([field, index]) =>
    isListIndex(index) ? [{ field, index }] : [],
  );
  const names = [...Object.keys(schema.shape), ...lists.map(({ field }) => field)].filter(
    (field) => field !== idField && field !== uses?.field,
  );

  /** The times of uses are not written, so that a change never undoes one. */
  function toFields(kept: Document): Record<string, unknown> & { _id: string } {
    const { [idField]: id, ...fields }: Record<string, unknown> = { ...schema.parse(kept) };
    if (uses !== undefined) delete fields[uses.field];
    for (const { field, index } of lists) {
      const values = valuesIn(kept, index);
      if (values.length > 0) fields[field] = values;
    }
    return { ...fields, _id: String(id) };
  }

  function toUpdate(next: Document, { revision, ...before }: StoredDocument): object {
    const { _id, ...fields } = toFields(next);
    const used = uses === undefined ? {} : (before[uses.field] ?? {});
    const usable = uses === undefined ? [] : (fields[uses.index] ?? []);
    const gone = Object.keys(used).filter((value) => !(usable as string[]).includes(value)); // of a list index
    const absent = [
      ...names.filter((field) => fields[field] === undefined),
      ...gone.map((value) => `${uses?.field}.${value}`),
    ];
    return {
      $set: { ...fields, revision: revision + 1 },
      // An empty `$unset` is an error for servers before 5.0.
      ...(absent.length > 0 && { $unset: Object.fromEntries(absent.map((field) => [field, ''])) }),
    };
  }

  return { toFields, toUpdate };
}
