import type { Collection, Db } from 'mongodb';
import { z } from 'zod';
import { detailCountNames, detailCountsSchema } from '../usage/usage-counts.ts';
import { countsOf, type DetailBatch, detailId, type UsageDetail } from '../usage/usage-details.ts';
import type { UsageMonth } from '../usage/usage-sums.ts';
import type { DetailChange, KeptDetail } from '../usage/usage-tables.ts';
import { type CollectionIndexes, index } from './database/mongo-indexes.ts';
import { incrementsOf } from './mongo-usage-documents.ts';

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
