import { randomUUID } from 'node:crypto';
import {
  type Db,
  type IndexDescription,
  MongoBulkWriteError,
  MongoClient,
  type MongoClientOptions,
  MongoServerError,
} from 'mongodb';
import { z } from 'zod';
import { RefusedStore, refusedSchema } from '../documents.ts';

export type Index = { key: Record<string, 1 | -1>; name: string; unique?: true; sparse?: true };
export type CollectionIndexes = { collection: string; indexes: readonly Index[] };

/** Names an index by its keys, as MongoDB does. */
export function index(key: Index['key'], options: Pick<Index, 'unique' | 'sparse'> = {}): Index {
  return { key, name: Object.entries(key).flat().join('_'), ...options };
}

/** Building an index on more documents can take longer than a call may take. */
const documentsMax = 10_000;

const [namespaceNotFound, unauthorized] = [26, 13];
/** An index that the server refuses: no rights, too many indexes, other options or another name for these keys, duplicates. */
const refusals: readonly unknown[] = [unauthorized, 67, 85, 86, 11_000];

const foundSchema = z.array(
  z.object({
    key: z.record(z.string(), z.unknown()),
    unique: z.boolean().optional(),
    sparse: z.boolean().optional(),
    partialFilterExpression: z.unknown().optional(),
  }),
);

type IndexReport = {
  /** `<collection>.<index>` of indexes that the server refused. */
  refused: string[];
  /** Missing indexes of large collections, which must be built without a deadline. */
  large: CollectionIndexes[];
};

/**
 * Creates the indexes that do not exist, except those of large collections. An index with the same keys and another name is accepted: an
 * operator may have created it. Throws if the server cannot be reached.
 */
export async function prepareIndexes(database: Db, all: readonly CollectionIndexes[]): Promise<IndexReport> {
  const prepared: IndexReport = { refused: [], large: [] };
  const prepare = async ({ collection, indexes }: CollectionIndexes) => {
    const missing = await listMissing(database, { collection, indexes });
    if (missing.length === 0) return;
    if (await isLarge(database, collection)) prepared.large.push({ collection, indexes: missing });
    else prepared.refused.push(...(await createIndexes(database, { collection, indexes: missing })));
  };
  await Promise.all(all.map(prepare));
  return prepared;
}

/** Creates these indexes, and returns `<collection>.<index>` of those that the server refused. */
export async function createIndexes(database: Db, { collection, indexes }: CollectionIndexes): Promise<string[]> {
  const refused: string[] = [];
  for (const wanted of indexes) {
    try {
      await database.collection(collection).createIndexes([wanted satisfies IndexDescription]);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      refused.push(`${collection}.${wanted.name}`);
    }
  }
  return refused;
}

/** Returns `<collection>.<index>` of each index that does not exist now. All of a collection whose indexes may not be listed count. */
export async function listMissingIndexes(database: Db, all: readonly CollectionIndexes[]): Promise<string[]> {
  const missing = all.map(async ({ collection, indexes }) => {
    const names = await listMissing(database, { collection, indexes });
    return names.map(({ name }) => `${collection}.${name}`);
  });
  return (await Promise.all(missing)).flat();
}

async function listMissing(database: Db, { collection, indexes }: CollectionIndexes): Promise<readonly Index[]> {
  try {
    const found = foundSchema.parse(await database.collection(collection).indexes());
    // A unique index does the work of one that is not; the other way around, two accounts could have the same key. An index of only some
    // documents does not find the others.
    const serves = ({ key, unique, sparse, partialFilterExpression }: (typeof found)[number], wanted: Index) =>
      textOf(key) === textOf(wanted.key) &&
      (wanted.unique === undefined || unique === true) &&
      (wanted.sparse === true || sparse !== true) &&
      partialFilterExpression === undefined;
    return indexes.filter((wanted) => !found.some((existing) => serves(existing, wanted)));
  } catch (error) {
    if (isRefusal(error) || (error instanceof MongoServerError && error.code === namespaceNotFound)) return indexes;
    throw error;
  }
}

async function isLarge(database: Db, collection: string): Promise<boolean> {
  try {
    return (await database.collection(collection).estimatedDocumentCount()) > documentsMax;
  } catch (error) {
    if (isRefusal(error)) return false;
    throw error;
  }
}

function isRefusal(error: unknown): boolean {
  return error instanceof MongoServerError && refusals.includes(error.code);
}

/** The order of the fields matters. */
function textOf(key: Record<string, unknown>): string {
  return JSON.stringify(Object.entries(key).map(([name, order]) => [name, Number(order)]));
}

type Log = { warn(fields: object, message: string): void };

/**
 * Builds indexes of large collections in the background. A server stops a build whose client disconnects, so its connections have no
 * time-out for answers. Several processes may start the same build: the server makes it once.
 */
export function createIndexBuilder({
  url,
  options,
  log,
}: {
  url: string;
  options: MongoClientOptions;
  log: Log;
}): AsyncDisposable & { start(large: readonly CollectionIndexes[]): void } {
  let client: MongoClient | undefined;

  async function build(opened: MongoClient, large: readonly CollectionIndexes[]): Promise<void> {
    for (const collection of large) {
      const names = collection.indexes.map(({ name }) => `${collection.collection}.${name}`);
      log.warn(
        { indexes: names },
        'indexes of a large collection are being built; calls that need them are slow until then',
      );
      const refused = await createIndexes(opened.db(), collection);
      if (refused.length > 0) log.warn({ indexes: refused }, 'MongoDB refused indexes; calls that need them are slow');
      else log.warn({ indexes: names }, 'the indexes were built');
    }
  }

  return {
    /** Does nothing while a build is in progress. */
    start(large) {
      if (large.length === 0 || client !== undefined) return;
      const opened = new MongoClient(url, {
        ...options,
        socketTimeoutMS: 0,
        maxPoolSize: 1,
        writeConcern: { w: 'majority' },
      });
      client = opened;
      build(opened, large)
        .catch((error: unknown) => {
          // Also when the process ends. The next process that starts tries again.
          if (client === opened) log.warn({ err: error }, 'indexes could not be built');
        })
        .finally(async () => {
          if (client === opened) client = undefined;
          await opened.close();
        });
    },
    async [Symbol.asyncDispose]() {
      const opened = client;
      client = undefined;
      await opened?.close();
    },
  };
}

export const duplicateKey = 11_000;

/**
 * Returns the indexes of those writes in an unordered bulk write that were refused because a document with that key exists. Throws every
 * other failure.
 */
export async function refusedAsDuplicates(write: Promise<unknown>): Promise<number[]> {
  try {
    await write;
    return [];
  } catch (error) {
    if (!(error instanceof MongoBulkWriteError) || error.result.getWriteConcernError() !== undefined) throw error;
    const errors = [error.writeErrors].flat();
    if (errors.length === 0 || errors.some(({ code }) => code !== duplicateKey)) throw error;
    return errors.map(({ index }) => index);
  }
}

/** The number of the form that documents have, which the store keeps (contract.md#s2-stored-data). */
export const schemaNumber = 1;

const schemaDocument = z.object({ number: z.int() }).nullable();

/** Notes the number in an empty store. Throws if the store has another number, or data without one. */
export async function checkSchema(database: Db): Promise<void> {
  const schemas = database.collection<{ _id: string; number: number }>('schema');
  const read = async () => schemaDocument.parse(await schemas.findOne({ _id: 'store' }))?.number;
  let found = await read();
  if (found === undefined && (await hasData(database))) found = (await read()) ?? 0; // the first process notes it before it writes data
  if (found === undefined) {
    // Another process may have noted it in the meantime.
    await refusedAsDuplicates(schemas.insertMany([{ _id: 'store', number: schemaNumber }], { ordered: false }));
    found = (await read()) ?? schemaNumber;
  }
  if (found !== schemaNumber) throw refusedSchema({ found, expected: schemaNumber });
}

async function hasData(database: Db): Promise<boolean> {
  const found = await Promise.all(['accounts', 'batches'].map((name) => database.collection(name).findOne()));
  return found.some((document) => document !== null);
}

/**
 * In each of the rounds, as many updates at once. On a busy machine FerretDB 1.24 lets several pass in one first round of four, while the
 * connections are being opened, and in four of five later ones: eight rounds together miss it once in 100,000 starts.
 */
const [rounds, updatesAtOnce] = [8, 50];
/** What a process left that was killed during its check. */
const scratchMs = 3_600_000;

/**
 * Checks with a document of its own that of several updates for the same version exactly one is made. The state of accounts, batches and
 * sums is exact only because of that. Throws if the server makes more (contract.md#pa3-kinds-of-stores).
 */
export async function checkAtomicUpdates(database: Db): Promise<void> {
  const scratch = database.collection<{ _id: string; version: number; checkedAt: Date }>('schema');
  const _id = `check ${randomUUID()}`;
  await scratch.insertOne({ _id, version: 0, checkedAt: new Date() });
  try {
    for (let version = 0; version < rounds; version += 1) {
      const update = () => scratch.updateOne({ _id, version }, { $set: { version: version + 1 } });
      const outcomes = await Promise.all(Array.from({ length: updatesAtOnce }, update));
      const made = outcomes.filter(({ matchedCount }) => matchedCount === 1).length;
      if (made > 1) throw notAtomic(made);
      if (made === 0) throw new Error('the document of the check of updates was removed meanwhile'); // the next call checks again
    }
  } finally {
    await scratch.deleteOne({ _id });
    await scratch.deleteMany({ checkedAt: { $lt: new Date(Date.now() - scratchMs) } });
  }
}

function notAtomic(made: number): RefusedStore {
  return new RefusedStore(
    `the server does not update documents atomically: of ${updatesAtOnce} updates for one version it made ${made}. Use MongoDB itself: servers that only speak its protocol, such as FerretDB, would lose changes`,
  );
}
