import type { Collection, Filter } from 'mongodb';
import { pauseBeforeRetry } from '../documents.ts';
import { compareBytes } from '../lists.ts';
import {
  byMonth,
  type MonthBatch,
  type RecordPage,
  summedRecordSchema,
  type UsageMonth,
  type UsageRecord,
  type UsageSum,
  usageRecordSchema,
} from '../usage/usage-record.ts';
import {
  type Addition,
  byDetail,
  type DetailBatch,
  type DetailChange,
  type DoubtfulMonth,
  detailId,
  type KeptSum,
  type UsageTables,
} from '../usage/usage-tables.ts';
import type { MongoCalls } from './mongo-calls.ts';
import { refusedAsDuplicates } from './mongo-indexes.ts';
import {
  detailChangeOf,
  detailMoveOf,
  detailRange,
  detailsOf,
  moveOf,
  type RecordDocument,
  readDetailDocument,
  readSumDocument,
  recordsOf,
  sumId,
  sumsOf,
  toRecordDocument,
  toSumDocument,
  withRequestId,
} from './mongo-usage-documents.ts';

type ByMonth = { _id: string } & UsageMonth;

/** Stores records, sums and details in three collections, as one document each. */
export function createMongoUsage(calls: MongoCalls): UsageTables {
  const { call, durable, database } = calls;
  const records = recordsOf(database);
  const sums = sumsOf(database);
  const both = [records, sums].map(({ collectionName }) => database.collection<ByMonth>(collectionName));

  return {
    ...createMongoDetails(calls),
    ...createFindRecords(calls),
    take: createTakeUsage(calls),
    removeBefore: createRemoveUsage(calls),

    readSum: (month) =>
      call(async () => {
        const found = await sums.findOne({ _id: sumId(month) }, durable());
        return found === null ? undefined : readSumDocument(found);
      }),

    readRecords: ({ account, month }, { after, upTo, limit }) =>
      call(async () => {
        const filter = { account, month, entry: { $gt: after, $lte: upTo } };
        const options = { projection: summedFields, sort: { entry: 1 }, limit, ...durable() } as const;
        const found = await records.find(filter, options).toArray();
        return found.map((document) => summedRecordSchema.parse(withRequestId(document)));
      }),

    replaceSum: (sum, kept) => call(() => replaceSum(sums, sum, kept)),

    nextMonth: (after) =>
      call(async () => {
        const found = await Promise.all(both.map((collection) => nextIn(collection, after)));
        return found.filter((month) => month !== undefined).sort(inStoredOrder)[0];
      }),
  };
}

const summedFields = Object.fromEntries(
  Object.keys(summedRecordSchema.omit({ requestId: true }).shape).map((name) => [name, 1]),
);

async function replaceSum(sums: ReturnType<typeof sumsOf>, sum: UsageSum, kept: KeptSum | undefined): Promise<boolean> {
  if (kept === undefined) {
    return (await refusedAsDuplicates(sums.insertMany([toSumDocument(sum, 0)], { ordered: false }))).length === 0;
  }
  const { _id, ...fields } = toSumDocument(sum, kept.repairs + 1);
  const guard = { _id, lastEntry: kept.sum.lastEntry, repairs: kept.repairs };
  return (await sums.updateOne(guard, { $set: fields })).matchedCount === 1;
}

async function nextIn(
  collection: Collection<ByMonth>,
  { account, month }: UsageMonth,
): Promise<UsageMonth | undefined> {
  const options = { projection: { _id: 0, account: 1, month: 1 }, sort: { account: 1, month: 1 } } as const;
  const found =
    (await collection.findOne({ account, month: { $gt: month } }, options)) ??
    (await collection.findOne({ account: { $gt: account } }, options));
  return found ?? undefined;
}

function inStoredOrder(one: UsageMonth, other: UsageMonth): number {
  return compareBytes(`${one.account}\0${one.month}`, `${other.account}\0${other.month}`);
}

/** Finds and lists whole records by the indexes that are made for that (mongo-usage-documents.ts). */
function createFindRecords({
  call,
  durable,
  database,
}: MongoCalls): Pick<UsageTables, 'findRecord' | 'findByAnswer' | 'listRecords'> {
  const records = recordsOf(database);

  /** In two reads, each of one range of the index. */
  async function listRecords(account: string, { before, limit }: RecordPage): Promise<UsageRecord[]> {
    if (before === undefined) return readPage({ account }, limit);
    const { admittedAt, requestId } = before;
    const ofSameTime = await readPage({ account, admittedAt, _id: { $lt: requestId } }, limit);
    if (ofSameTime.length === limit) return ofSameTime;
    const earlier = await readPage({ account, admittedAt: { $lt: admittedAt } }, limit - ofSameTime.length);
    return [...ofSameTime, ...earlier];
  }

  async function readPage(filter: Filter<RecordDocument>, limit: number): Promise<UsageRecord[]> {
    const options = { sort: { admittedAt: -1, _id: -1 }, limit, ...durable() } as const;
    return (await records.find(filter, options).toArray()).map(toRecord);
  }

  return {
    findRecord: (requestId) =>
      call(async () => {
        const found = await records.findOne({ _id: requestId }, durable());
        return found === null ? undefined : toRecord(found);
      }),
    findByAnswer: (account, answerId) =>
      call(async () => {
        const found = await records.findOne({ account, answerId }, { sort: { admittedAt: -1 }, ...durable() });
        return found === null ? undefined : toRecord(found);
      }),
    listRecords: (account, page) => call(() => listRecords(account, page)),
  };
}

function toRecord(found: { _id: unknown }): UsageRecord {
  return usageRecordSchema.parse(withRequestId(found));
}

type OfMonth = { _id: string; month: string };

/** A piece takes a small part of a call's 5 s also on a slow server. */
const pieceMsWanted = 500;
const [piecesMin, piecesMax] = [500, 20_000];

/**
 * Removes one month after the other, each in pieces up to a boundary in the order of ids, which the index on month and id finds. Details
 * come after their records, and sums last, because they list the months.
 */
function createRemoveUsage({ call, database }: MongoCalls): UsageTables['removeBefore'] {
  const collections = [recordsOf(database), detailsOf(database), sumsOf(database)].map(({ collectionName }) =>
    database.collection<OfMonth>(collectionName),
  );
  let piece = piecesMin;

  async function removePiece(collection: Collection<OfMonth>, month: string, signal: AbortSignal): Promise<number> {
    const byId = { projection: { _id: 1 }, sort: { _id: 1 }, skip: piece - 1 } as const;
    const boundary = await collection.findOne({ month }, byId);
    signal.throwIfAborted();
    const filter = boundary === null ? { month } : { month, _id: { $lte: boundary._id } };
    return (await collection.deleteMany(filter)).deletedCount;
  }

  return async function removeBefore(month) {
    const startedAt = performance.now();
    try {
      return await call(async (signal) => {
        for (const collection of collections) {
          while (true) {
            const options = { projection: { _id: 0, month: 1 }, sort: { month: 1 } } as const;
            const oldest = await collection.findOne({ month: { $lt: month } }, options);
            if (oldest === null) break;
            const removed = await removePiece(collection, oldest.month, signal);
            if (removed > 0) return removed; // otherwise another process has removed the same piece
          }
        }
        return 0;
      });
    } finally {
      const factor = pieceMsWanted / Math.max(1, performance.now() - startedAt);
      piece = Math.round(Math.min(piecesMax, Math.max(piecesMin, piece * Math.min(2, factor))));
    }
  };
}

const recordsAtOnce = 500;

type Moves<Batch> = {
  write(batches: readonly Batch[]): Promise<unknown>;
  /** Returns the last entry of each batch's document, by id; only what a failover cannot undo. */
  readLastEntries(batches: readonly Batch[]): Promise<ReadonlyMap<string, string>>;
  idOf(batch: Batch): string;
  signal: AbortSignal;
};

/**
 * Repeats guarded updates until each entry is in its document, or the document is already past it. Returns the batches whose documents were
 * past some of their entries: another process has updated them.
 */
async function moveAll<Batch extends Addition>(
  batches: readonly Batch[],
  { write, readLastEntries, idOf, signal }: Moves<Batch>,
): Promise<Batch[]> {
  const passed: Batch[] = [];
  let waiting = batches.filter(({ unsummed }) => unsummed.length > 0);
  for (let attempt = 1; waiting.length > 0; attempt += 1) {
    signal.throwIfAborted(); // the caller has received a failure: nothing more may change
    const indexes = await refusedAsDuplicates(write(waiting));
    const refused = indexes.flatMap((index) => waiting[index] ?? []);
    if (refused.length === 0) break;
    const lastEntries = await readLastEntries(refused);
    const rests = refused.map((batch) => {
      const lastEntry = lastEntries.get(idOf(batch)) ?? '';
      return { batch, rest: { ...batch, unsummed: after(batch.unsummed, lastEntry) } };
    });
    const isPassed = ({ batch, rest }: (typeof rests)[number]) => rest.unsummed.length < batch.unsummed.length;
    passed.push(...rests.filter(isPassed).map(({ batch }) => batch));
    waiting = rests.map(({ rest }) => rest).filter(({ unsummed }) => unsummed.length > 0);
    if (waiting.length > 0) await pauseBeforeRetry(attempt, signal);
  }
  return passed;
}

/** Adds records to details, each in its own guarded update. Returns those that were past some of them. */
function createMoveDetails(calls: MongoCalls) {
  const details = detailsOf(calls.database);
  return (batches: readonly DetailBatch[], signal: AbortSignal): Promise<DetailBatch[]> =>
    moveAll<DetailBatch>(batches, {
      write: (waiting) => details.bulkWrite(waiting.map(detailMoveOf), { ordered: false }),
      async readLastEntries(refused) {
        const accounts = [...new Set(refused.map(({ account }) => account))];
        const filter = { _id: { $in: refused.map(detailId) }, account: { $in: accounts } };
        const found = await details.find(filter, { projection: { lastEntry: 1 }, ...calls.durable() }).toArray();
        return new Map(found.map(({ _id, lastEntry }) => [_id, lastEntry]));
      },
      idOf: detailId,
      signal,
    });
}

/**
 * Inserts records first, acknowledged by a majority, then updates details, then sums, each in its own guarded update
 * (contract.md#r5-sums, contract.md#r11-details).
 */
function createTakeUsage(calls: MongoCalls): UsageTables['take'] {
  const records = recordsOf(calls.database);
  const sums = sumsOf(calls.database);
  const moveDetails = createMoveDetails(calls);

  /** Inserts new records, and returns the entry under which each request's record is stored. */
  async function insert(batch: readonly UsageRecord[]): Promise<Map<string, string>> {
    const documents = batch.map(toRecordDocument);
    const refused = await refusedAsDuplicates(records.insertMany(documents, { ordered: false }));
    const storedEntries = new Map(documents.map(({ _id, entry }) => [_id, entry]));
    if (refused.length === 0) return storedEntries;
    const ids = new Set(refused.map((index) => documents[index]?._id ?? ''));
    const projection = { entry: 1 };
    const found = await records.find({ _id: { $in: [...ids] } }, { projection, ...calls.durable() }).toArray();
    if (found.length < ids.size) throw new Error('an existing record is not yet safe from a failover');
    for (const { _id, entry } of found) storedEntries.set(_id, entry);
    return storedEntries;
  }

  function moveSums(batches: readonly MonthBatch[], signal: AbortSignal): Promise<MonthBatch[]> {
    return moveAll<MonthBatch>(batches, {
      write: (waiting) => sums.bulkWrite(waiting.map(moveOf), { ordered: false }),
      async readLastEntries(refused) {
        const filter = { _id: { $in: refused.map(sumId) } };
        const found = await sums.find(filter, { projection: { lastEntry: 1 }, ...calls.durable() }).toArray();
        return new Map(found.map(({ _id, lastEntry }) => [_id, lastEntry]));
      },
      idOf: sumId,
      signal,
    });
  }

  async function takeBatch(batch: readonly UsageRecord[]): Promise<DoubtfulMonth[]> {
    const storedEntries = await calls.call(() => insert(batch));
    const batches = byMonth(batch, storedEntries);
    const details = batches.flatMap((month) => byDetail(month, month.unsummed));
    const passedDetails = new Set((await calls.call((signal) => moveDetails(details, signal))).map(sumId));
    const passedSums = new Set((await calls.call((signal) => moveSums(batches, signal))).map(sumId));
    const isDoubtful = (month: MonthBatch) =>
      month.disputed || passedSums.has(sumId(month)) || passedDetails.has(sumId(month));
    return batches.filter(isDoubtful).map(({ account, month, lastEntry }) => ({ account, month, upTo: lastEntry }));
  }

  return async function take(all) {
    const doubtful: DoubtfulMonth[] = [];
    for (let from = 0; from < all.length; from += recordsAtOnce)
      doubtful.push(...(await takeBatch(all.slice(from, from + recordsAtOnce))));
    return doubtful;
  };
}

function after<Item extends { entry: string }>(items: readonly Item[], lastEntry: string): Item[] {
  return items.filter(({ entry }) => entry > lastEntry);
}

const changesAtOnce = 500;

type DetailTables = Pick<UsageTables, 'readDetails' | 'readMonthDetails' | 'compareAccounts' | 'replaceDetails'>;

function createMongoDetails({ call, durable, database }: MongoCalls): DetailTables {
  const details = detailsOf(database);

  async function write(changes: readonly DetailChange[]): Promise<boolean> {
    let matched = 0;
    const refused = await refusedAsDuplicates(
      details.bulkWrite(changes.map(detailChangeOf), { ordered: false }).then((result) => {
        matched = result.matchedCount + result.insertedCount;
      }),
    );
    return refused.length === 0 && matched === changes.length;
  }

  return {
    readDetails: (month, { limit, keyId, ...page }) =>
      call(async () => {
        const range = detailRange(month, 'fromDay' in page ? page.fromDay : '');
        const _id = 'after' in page ? { $gt: detailId(page.after), $lt: range.$lt } : range;
        const options = { sort: { _id: 1 }, limit, ...durable() } as const;
        const found = await details
          .find({ account: month.account, _id, ...(keyId !== undefined && { keyId }) }, options)
          .toArray();
        return found.map(readDetailDocument);
      }),

    readMonthDetails: (month, { after, limit }) =>
      call(async () => {
        const filter = { month, ...(after !== undefined && { _id: { $gt: detailId(after) } }) };
        const options = { sort: { _id: 1 }, limit, ...durable() } as const;
        const found = await details.find(filter, options).toArray();
        return found.map((document) => readDetailDocument(document).detail);
      }),

    // Ids of details are JSON and begin with the account.
    compareAccounts: (one, other) => compareBytes(JSON.stringify(one), JSON.stringify(other)),

    async replaceDetails(_month, changes) {
      for (let from = 0; from < changes.length; from += changesAtOnce) {
        const piece = changes.slice(from, from + changesAtOnce);
        if (!(await call(() => write(piece)))) return false;
      }
      return true;
    },
  };
}
