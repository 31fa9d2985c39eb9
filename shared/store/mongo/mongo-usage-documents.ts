import type { Collection, Db } from 'mongodb';
import { z } from 'zod';
import {
  countNames,
  type DetailCounts,
  detailCountNames,
  detailCountsSchema,
  type MonthBatch,
  type UsageMonth,
  type UsageRecord,
  type UsageSum,
  usageCountsSchema,
  usageRecordSchema,
} from '../usage/usage-record.ts';
import {
  countsOf,
  type DetailBatch,
  type DetailChange,
  detailId,
  type KeptDetail,
  type KeptSum,
  type UsageDetail,
} from '../usage/usage-tables.ts';
import { type CollectionIndexes, index } from './mongo-indexes.ts';

const recordDocumentSchema = usageRecordSchema.omit({ requestId: true }).extend({ _id: z.string() });

const sumDocumentSchema = z.object({
  _id: z.string(),
  account: z.string(),
  month: z.string(),
  lastEntry: z.string(),
  repairs: z.int(),
  total: usageCountsSchema,
});

/**
 * By month and id to remove old documents, by the id of the answer to find one request. The others read one account's records in the order
 * of the outbox or of admission, and iterate over all months.
 */
export const usageIndexes: readonly CollectionIndexes[] = [
  {
    collection: 'usage_records',
    indexes: [
      index({ account: 1, month: 1, entry: 1 }),
      index({ month: 1, _id: 1 }),
      index({ account: 1, admittedAt: 1, _id: 1 }),
      index({ account: 1, answerId: 1, admittedAt: 1 }),
    ],
  },
  { collection: 'usage_sums', indexes: [index({ account: 1, month: 1 }), index({ month: 1, _id: 1 })] },
];

export type RecordDocument = z.infer<typeof recordDocumentSchema>;
type SumDocument = z.infer<typeof sumDocumentSchema>;

export function recordsOf(database: Db): Collection<RecordDocument> {
  return database.collection('usage_records', { ignoreUndefined: true });
}

export function sumsOf(database: Db): Collection<SumDocument> {
  return database.collection('usage_sums');
}

export function toRecordDocument(record: UsageRecord): RecordDocument {
  const { requestId: _id, ...fields } = usageRecordSchema.parse(record);
  return { _id, ...fields };
}

/** Reverses `toRecordDocument`. The result must be validated, like all data from outside. */
export function withRequestId({ _id: requestId, ...fields }: { _id: unknown }): unknown {
  return { ...fields, requestId };
}

export function sumId({ account, month }: UsageMonth): string {
  return `${account} ${month}`;
}

/**
 * Adds the unsummed records to a sum that is not past them. If the sum is past them, the upsert cannot insert another document with its id
 * and fails with a duplicate key. The details contain these records and all before them.
 */
export function moveOf(batch: MonthBatch) {
  const { account, month, unsummed, lastEntry } = batch;
  const filter = { _id: sumId(batch), lastEntry: { $lt: unsummed[0]?.entry ?? '' } };
  const update = {
    $inc: incrementsOf('total', countsOf(unsummed), countNames),
    $set: { lastEntry },
    $setOnInsert: { account, month, repairs: 0 },
  };
  return { updateOne: { filter, update, upsert: true } };
}

/** Also increments of 0, because a new document must have every field. */
function incrementsOf<Name extends keyof DetailCounts>(
  path: string,
  counts: Record<Name, number>,
  names: readonly Name[],
): Record<string, number> {
  const increments: Record<string, number> = {};
  for (const name of names) increments[`${path}.${name}`] = counts[name];
  return increments;
}

export function toSumDocument(sum: UsageSum, repairs: number): SumDocument {
  return { _id: sumId(sum), ...sum, repairs };
}

export function readSumDocument(found: unknown): KeptSum {
  const { _id, repairs, ...sum } = sumDocumentSchema.parse(found);
  return { sum, repairs };
}

const detailDocumentSchema = z.object({
  _id: z.string(),
  account: z.string(),
  month: z.string(),
  day: z.string(),
  model: z.string(),
  keyId: z.string(),
  endpoint: z.string(),
  lastEntry: z.string(),
  repairs: z.int(),
  counts: detailCountsSchema,
});

type DetailDocument = z.infer<typeof detailDocumentSchema>;

/** By account, month and day for exports; by month and id to remove old details. */
export const detailIndexes: CollectionIndexes = {
  collection: 'usage_details',
  indexes: [index({ account: 1, month: 1, day: 1 }), index({ month: 1, _id: 1 })],
};

/** One document for each detail. Its account is the shard key, so every filter has it (contract.md#r12-shards). */
export function detailsOf(database: Db): Collection<DetailDocument> {
  return database.collection(detailIndexes.collection);
}

/** Adds records to a detail that is not past them. If it is past them, the upsert fails with a duplicate key, like that of a sum. */
export function detailMoveOf(batch: DetailBatch) {
  const { account, unsummed, lastEntry, month, day, model, keyId, endpoint } = batch;
  const filter = { _id: detailId(batch), account, lastEntry: { $lt: unsummed[0]?.entry ?? '' } };
  const update = {
    $inc: incrementsOf('counts', countsOf(unsummed), detailCountNames),
    $set: { lastEntry },
    $setOnInsert: { month, day, model, keyId, endpoint, repairs: 0 },
  };
  return { updateOne: { filter, update, upsert: true } };
}

/** Replaces a detail that is still as it was kept, or inserts one that did not exist. */
export function detailChangeOf({ detail, kept }: DetailChange) {
  const { counts, lastEntry } = detail;
  const _id = detailId(detail);
  if (kept === undefined) return { insertOne: { document: { _id, ...detail, repairs: 0 } } };
  const filter = { _id, account: detail.account, lastEntry: kept.detail.lastEntry, repairs: kept.repairs };
  return { updateOne: { filter, update: { $set: { counts, lastEntry, repairs: kept.repairs + 1 } } } };
}

/** Ids of details begin with account and month, so that those of a month, or from a day on, are one range. */
export function detailRange({ account, month }: UsageMonth, fromDay: string): { $gte: string; $lt: string } {
  const start = JSON.stringify([account, month]).slice(0, -1);
  // The comma after the month, then the character after the comma.
  return { $gte: `${start},"${fromDay}`, $lt: `${start}-` };
}

export function readDetailDocument(found: unknown): KeptDetail {
  const { _id, repairs, ...detail } = detailDocumentSchema.parse(found);
  return { detail: detail satisfies UsageDetail, repairs };
}
