import { type Collection as MongoCollection, MongoServerError } from 'mongodb';
import { z } from 'zod';
import {
  type Collection,
  captureDecision,
  type Decide,
  type Documents,
  type Index,
  isListIndex,
  pauseBeforeRetry,
  type Query,
  type Use,
  valueAt,
  valuesIn,
  valueTaken,
} from '../documents.ts';
import { inPieces, type Page, type PageQuery, type Place, readList } from '../lists.ts';
import type { MongoCalls } from './mongo-calls.ts';
import { duplicateKey, refusedAsDuplicates } from './mongo-indexes.ts';
import { selectionOf } from './mongo-select.ts';

const readAtOnce = 100;
/** Some fields of a document are short. */
const projectedFactor = 20;
/** What one call writes or reads at most, small enough to finish well before its deadline. */
const [documentsAtOnce, charactersWritten, charactersRead] = [100, 4_194_304, 8_388_608];
const removedAtOnce = 500;

const talliesSchema = z.array(z.object({ _id: z.unknown(), count: z.int(), sum: z.int(), least: z.unknown() }));

/** Documents in one collection, with a `revision` that counts their changes. Every call of the database has its own deadline. */
export function createMongoDocuments<Document extends object, Name extends string>(
  calls: MongoCalls,
  collection: Collection<Document, Name>,
): Documents<Document, Name> {
  const access = createAccess(calls, collection);
  return { ...createReads(calls, collection, access), ...createWrites(calls, collection, access) };
}

function createReads<Document extends object, Name extends string>(
  { call, durable }: MongoCalls,
  collection: Collection<Document, Name>,
  { documents, read, keptOf, fieldsOf }: Access<Document>,
) {
  const { text } = collection;

  async function readPage(index: Name | 'id', query: PageQuery): Promise<Page> {
    const { limit, fields, charactersMax = charactersRead } = query;
    const { filter, next, sort } = selectionOf(collection, index, query);
    const projection = fields && Object.fromEntries([...fields, next].map((field) => [field, 1 as const]));
    const options = { sort, limit, ...(projection && { projection }), ...durable() };
    const found: Record<string, unknown>[] = [];
    let characters = 0;
    let last: Place | undefined;
    for await (const stored of documents.find(filter, options)) {
      found.push(fieldsOf(stored));
      last = { value: next === '_id' ? undefined : valueAt(stored, next), id: stored._id };
      characters += text === undefined ? 0 : String(stored[text] ?? '').length;
      if (characters >= Math.min(charactersRead, charactersMax)) return { found, characters, next: last };
    }
    return { found, characters, next: found.length < limit ? undefined : last };
  }

  function list(index: Name | 'id', fields: readonly string[] | undefined, query: Query): Promise<Document[]> {
    const { next } = selectionOf(collection, index, { is: query.is });
    const atOnce = (collection.atOnce ?? readAtOnce) * (fields === undefined ? 1 : projectedFactor);
    const readOne = (page: PageQuery) => call(() => readPage(index, page));
    return readList(collection, index, query, { fields, atOnce, next, readPage: readOne });
  }

  /** If they must exist, waits until all are safe from a failover. */
  async function readAll(ids: readonly string[], isCertain: boolean, signal: AbortSignal): Promise<StoredDocument[]> {
    for (let attempt = 1; ; attempt += 1) {
      const found = await documents.find({ _id: { $in: [...ids] } }, durable()).toArray();
      if (!isCertain || found.length === ids.length) return found;
      await pauseBeforeRetry(attempt, signal);
    }
  }

  return {
    find: (id) =>
      call(async () => {
        const stored = await read(id);
        return stored && keptOf(stored);
      }),

    async findAll(ids, { isCertain = false } = {}) {
      const [found, wanted] = [new Map<string, Document>(), [...new Set(ids)]];
      for (let from = 0; from < wanted.length; from += documentsAtOnce) {
        const piece = wanted.slice(from, from + documentsAtOnce);
        const stored = await call((signal) => readAll(piece, isCertain, signal));
        for (const each of stored) found.set(each._id, keptOf(each));
      }
      return found;
    },

    list: (index, query) => list(index, undefined, query),
    listFields: list,

    tally: (index, { is, by, sum, least }) =>
      call(async () => {
        const sums = {
          count: { $sum: 1 },
          sum: { $sum: sum === undefined ? 0 : `$${sum}` },
          least: { $min: least === undefined ? null : `$${least}` },
        };
        const pipeline = [
          { $match: selectionOf(collection, index, { is }).filter },
          { $group: { _id: by === undefined ? null : `$${by}`, ...sums } },
        ];
        const groups = talliesSchema.parse(await documents.aggregate(pipeline, durable()).toArray());
        return groups.map(({ _id: value, ...tally }) => ({ value, ...tally }));
      }),
  } satisfies Partial<Documents<Document, Name>>;
}

function createWrites<Document extends object, Name extends string>(
  { call }: MongoCalls,
  collection: Collection<Document, Name>,
  { documents, read, write, keptOf, toFields }: Access<Document>,
) {
  const { text, uses } = collection;
  const lengthOf = (kept: Document) => (text === undefined ? 0 : String(valueAt(kept, text) ?? '').length);

  /**
   * Each failed attempt means that another change succeeded, so all concurrent changes finish. A change that is not yet safe from a
   * failover is not used for a decision: it waits until the change is safe, or until the call's deadline.
   */
  async function changeGuarded<Result>(
    id: string,
    decide: Decide<Document, Result>,
    signal: AbortSignal,
  ): Promise<Result> {
    for (let attempt = 1; ; attempt += 1) {
      const before = await read(id);
      const { result, next, isRemoved } = decide(before && keptOf(before));
      if (next === undefined && !(isRemoved && before !== undefined)) return result;
      signal.throwIfAborted(); // the caller has received a failure: nothing more may change
      if (await write(next, before)) return result;
      await pauseBeforeRetry(attempt, signal);
    }
  }

  /** The filter is the whole condition, so that uses of one document may arrive in any order. */
  function toNote({ id: _id, value, at }: Use) {
    const { filter } = selectionOf(collection, uses?.index ?? 'id', { is: [value] });
    return {
      updateOne: { filter: { _id, ...filter }, update: { $max: { [`${uses?.field}.${value}`]: at } } },
    };
  }

  return {
    async insert(inserted) {
      const refused: string[] = [];
      for (const piece of inPieces(inserted, { count: documentsAtOnce, length: charactersWritten, lengthOf })) {
        const stored = piece.map((kept) => ({ ...toFields(kept), revision: 1 }));
        const others = await call(() => refusedAsDuplicates(documents.insertMany(stored, { ordered: false })));
        refused.push(...others.map((number) => stored[number]?._id ?? ''));
      }
      return refused;
    },

    async change(id, decide) {
      const result = await call((signal) => changeGuarded(id, captureDecision(decide), signal));
      return result();
    },

    add: (_id, amounts, maxima) =>
      call(async () => {
        const isThere = Object.keys(amounts).map((path) => [path, { $exists: true }]);
        const hasRoom = Object.entries(maxima).map(([path, max]) => [path, { $lte: max - (amounts[path] ?? 0) }]);
        const filter = { _id, ...Object.fromEntries([...isThere, ...hasRoom]) };
        return (await documents.updateOne(filter, { $inc: { ...amounts, revision: 1 } } as object)).matchedCount === 1;
      }),

    async remove(ids) {
      await call(() => documents.deleteMany({ _id: { $in: [...ids] } }));
    },

    removeSome: (index, { limit, ...query }) =>
      call(async (signal) => {
        const options = { projection: { _id: 1 as const }, limit: Math.min(limit, removedAtOnce) };
        const found = await documents.find(selectionOf(collection, index, query).filter, options).toArray();
        if (found.length === 0) return 0;
        signal.throwIfAborted();
        await documents.deleteMany({ _id: { $in: found.map(({ _id }) => _id) } });
        return found.length; // another process may remove the same: 0 would say that none is left
      }),

    async noteUses(noted) {
      if (noted.length > 0) await call(() => documents.bulkWrite(noted.map(toNote), { ordered: false }));
    },
  } satisfies Partial<Documents<Document, Name>>;
}

type StoredDocument = Record<string, unknown> & { _id: string; revision: number };

/** Reads and writes single documents, within a call. */
type Access<Document extends object> = ReturnType<typeof createAccess<Document>>;

function createAccess<Document extends object>({ durable, database }: MongoCalls, collection: Collection<Document>) {
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
