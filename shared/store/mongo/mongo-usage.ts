import type { Collection, Filter } from 'mongodb';
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
import { byDetail, type DoubtfulMonth, type KeptSum, placeOf, type UsageTables } from '../usage/usage-tables.ts';
import type { MongoCalls } from './mongo-calls.ts';
import { refusedAsDuplicates } from './mongo-indexes.ts';
import {
  createGroupHours,
  createMongoDetails,
  createMongoHours,
  createMoveDetails,
  moveAll,
} from './mongo-usage-details.ts';
import {
  detailsOf,
  moveOf,
  type RecordDocument,
  readSumDocument,
  recordsOf,
  refusalsOf,
  sumId,
  sumsOf,
  toRecordDocument,
  toSumDocument,
  withRequestId,
} from './mongo-usage-documents.ts';

type ByMonth = { _id: string } & UsageMonth;

/** Stores records, sums, details of days and of hours, and refusals in five collections, as one document each. */
export function createMongoUsage(calls: MongoCalls): UsageTables {
  const { call, durable, database } = calls;
  const records = recordsOf(database);
  const sums = sumsOf(database);
  const both = [records, sums].map(({ collectionName }) => database.collection<ByMonth>(collectionName));

  return {
    ...createMongoDetails(calls),
    ...createFindRecords(calls),
    ...createMongoHours(calls),
    take: createTakeUsage(calls),
    ...createRemoveUsage(calls),

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

type Removable = { _id: string; month: string; start: string };

/** A piece takes a small part of a call's 5 s also on a slow server. */
const pieceMsWanted = 500;
const [piecesMin, piecesMax] = [500, 20_000];

/**
 * Removes one month or hour after the other, each in pieces up to a boundary in the order of ids, which the index on it and the id finds.
 * Details come after their records, and sums last, because they list the months.
 */
function createRemoveUsage({ call, database }: MongoCalls): Pick<UsageTables, 'removeBefore' | 'removeHoursBefore'> {
  const [days, hours] = [detailsOf(database, 'day'), detailsOf(database, 'hour')];
  const named = (all: readonly { collectionName: string }[]) =>
    all.map(({ collectionName }) => database.collection<Removable>(collectionName));
  const ofMonths = named([recordsOf(database), days, hours, sumsOf(database)]);
  const ofHours = named([hours, refusalsOf(database)]);
  let piece = piecesMin;

  async function removePiece(
    collection: Collection<Removable>,
    at: Filter<Removable>,
    signal: AbortSignal,
  ): Promise<number> {
    const byId = { projection: { _id: 1 }, sort: { _id: 1 }, skip: piece - 1 } as const;
    const boundary = await collection.findOne(at, byId);
    signal.throwIfAborted();
    const filter = boundary === null ? at : { ...at, _id: { $lte: boundary._id } };
    return (await collection.deleteMany(filter)).deletedCount;
  }

  async function removeFirst(
    collections: readonly Collection<Removable>[],
    { by, before, signal }: { by: 'month' | 'start'; before: string; signal: AbortSignal },
  ): Promise<number> {
    for (const collection of collections) {
      while (true) {
        const options = { projection: { _id: 0, [by]: 1 }, sort: { [by]: 1 } } as const;
        const oldest = await collection.findOne({ [by]: { $lt: before } }, options);
        if (oldest === null) break;
        const removed = await removePiece(collection, { [by]: oldest[by] }, signal);
        if (removed > 0) return removed; // otherwise another process has removed the same piece
      }
    }
    return 0;
  }

  function removeBy(by: 'month' | 'start', collections: readonly Collection<Removable>[]) {
    return async (before: string): Promise<number> => {
      const startedAt = performance.now();
      try {
        return await call((signal) => removeFirst(collections, { by, before, signal }));
      } finally {
        const factor = pieceMsWanted / Math.max(1, performance.now() - startedAt);
        piece = Math.round(Math.min(piecesMax, Math.max(piecesMin, piece * Math.min(2, factor))));
      }
    };
  }

  return { removeBefore: removeBy('month', ofMonths), removeHoursBefore: removeBy('start', ofHours) };
}

const recordsAtOnce = 500;

/**
 * Inserts records first, acknowledged by a majority, then updates details, then sums, each in its own guarded update
 * (contract.md#r5-sums, contract.md#r11-details).
 */
function createTakeUsage(calls: MongoCalls): UsageTables['take'] {
  const records = recordsOf(calls.database);
  const sums = sumsOf(calls.database);
  const [moveDays, moveHours] = [createMoveDetails(calls, 'day'), createMoveDetails(calls, 'hour')];
  const groupHours = createGroupHours(calls);

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

  async function takeBatch(batch: readonly UsageRecord[], hoursFrom: string): Promise<DoubtfulMonth[]> {
    const storedEntries = await calls.call(() => insert(batch));
    const batches = byMonth(batch, storedEntries);
    const days = batches.flatMap((month) => byDetail(month.unsummed, (record) => placeOf(month, record, 'day')));
    const hours = await calls.call(() => groupHours(batches, hoursFrom));
    const passed = await calls.call(async (signal) => {
      const moved = await Promise.all([moveDays(days, signal), moveHours(hours, signal)]);
      return moved.flat();
    });
    const passedDetails = new Set(passed.map(sumId));
    const passedSums = new Set((await calls.call((signal) => moveSums(batches, signal))).map(sumId));
    const isDoubtful = (month: MonthBatch) =>
      month.disputed || passedSums.has(sumId(month)) || passedDetails.has(sumId(month));
    return batches.filter(isDoubtful).map(({ account, month, lastEntry }) => ({ account, month, upTo: lastEntry }));
  }

  return async function take(all, hoursFrom) {
    const doubtful: DoubtfulMonth[] = [];
    for (let from = 0; from < all.length; from += recordsAtOnce)
      doubtful.push(...(await takeBatch(all.slice(from, from + recordsAtOnce), hoursFrom)));
    return doubtful;
  };
}
