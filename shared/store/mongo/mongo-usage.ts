import type { Collection } from 'mongodb';
import { compareBytes } from '../adapters/compare-bytes.ts';
import { summedRecordSchema } from '../usage/usage-counts.ts';
import type { UsageMonth, UsageSum } from '../usage/usage-sums.ts';
import type { KeptSum, UsageTables } from '../usage/usage-tables.ts';
import type { MongoCalls } from './database/mongo-calls.ts';
import { refusedAsDuplicates } from './database/mongo-duplicates.ts';
import { createFindRecords } from './mongo-find-records.ts';
import { createRemoveUsage } from './mongo-remove-usage.ts';
import { createTakeUsage } from './mongo-take-usage.ts';
import { createMongoDetails } from './mongo-usage-details.ts';
import { readSumDocument, recordsOf, sumId, sumsOf, toSumDocument, withRequestId } from './mongo-usage-documents.ts';

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
