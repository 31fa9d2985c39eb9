import type { Collection, Filter } from 'mongodb';
import { compareBytes } from '../documents/lists.ts';
import { type RecordPage, type UsageRecord, usageRecordSchema } from '../usage/usage-record.ts';
import { summedRecordSchema, type UsageMonth, type UsageSum } from '../usage/usage-sums.ts';
import type { KeptSum, UsageTables } from '../usage/usage-tables.ts';
import type { MongoCalls } from './mongo-calls.ts';
import { refusedAsDuplicates } from './mongo-indexes.ts';
import { createMongoDetails, createTakeUsage } from './mongo-take-usage.ts';
import {
  detailsOf,
  type RecordDocument,
  readSumDocument,
  recordsOf,
  sumId,
  sumsOf,
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
export function createFindRecords({
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
export function createRemoveUsage({ call, database }: MongoCalls): UsageTables['removeBefore'] {
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
