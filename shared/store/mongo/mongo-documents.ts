import { z } from 'zod';
import {
  type Collection,
  captureDecision,
  type Decide,
  type Documents,
  type Query,
  type Use,
  valueAt,
} from '../documents/documents.ts';
import { inPieces, type Page, type PageQuery, type Place, readList } from '../documents/lists.ts';
import { pauseBeforeRetry } from '../documents/pause-before-retry.ts';
import { type Access, createAccess, type StoredDocument } from './mongo-access.ts';
import type { MongoCalls } from './mongo-calls.ts';
import { refusedAsDuplicates } from './mongo-indexes.ts';
import { selectionOf } from './mongo-select.ts';

const readAtOnce = 100;
/** Some fields of a document are short. */
const projectedFactor = 20;
/** What one call writes or reads at most, small enough to finish well before its deadline. */
const [documentsAtOnce, charactersWritten, charactersRead] = [100, 4_194_304, 8_388_608];
const removedAtOnce = 500;

const tallySchema = z.object({ _id: z.unknown(), count: z.int(), sum: z.int(), least: z.unknown() });

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
        const groups = z.array(tallySchema).parse(await documents.aggregate(pipeline, durable()).toArray());
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
