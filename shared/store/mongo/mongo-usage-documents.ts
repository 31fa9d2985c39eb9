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
  type DetailPlace,
  detailId,
  type KeptDetail,
  type KeptSum,
  type Refusals,
  type UsageDetail,
  type UsageUnit,
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
  start: z.string(),
  model: z.string(),
  keyId: z.string(),
  endpoint: z.string(),
  code: z.string(),
  lastEntry: z.string(),
  repairs: z.int(),
  counts: detailCountsSchema,
});

type DetailDocument = z.infer<typeof detailDocumentSchema>;

/** By account, month and time for exports; by month and id, and by hour, to remove old details. Hours of all accounts are read by hour. */
export const detailIndexes: Record<UsageUnit, CollectionIndexes> = {
  day: { collection: 'usage_days', indexes: [index({ account: 1, month: 1, start: 1 }), index({ month: 1, _id: 1 })] },
  hour: { collection: 'usage_hours', indexes: [index({ month: 1, _id: 1 }), index({ start: 1, _id: 1 })] },
};

/** One document for each detail. Its account is the shard key, so every filter has it (contract.md#r12-shards). */
export function detailsOf(database: Db, unit: UsageUnit): Collection<DetailDocument> {
  return database.collection(detailIndexes[unit].collection);
}

/** Adds records to a detail that is not past them. If it is past them, the upsert fails with a duplicate key, like that of a sum. */
export function detailMoveOf(batch: DetailBatch) {
  const { account, unsummed, lastEntry, month, start, model, keyId, endpoint, code } = batch;
  const filter = { _id: detailId(batch), account, lastEntry: { $lt: unsummed[0]?.entry ?? '' } };
  const update = {
    $inc: incrementsOf('counts', countsOf(unsummed), detailCountNames),
    $set: { lastEntry },
    $setOnInsert: { month, start, model, keyId, endpoint, code, repairs: 0 },
  };
  return { updateOne: { filter, update, upsert: true } };
}

/** Replaces a detail that is still as it was kept, or inserts one that did not exist. */
export function detailChangeOf({ detail: { unit: _, ...detail }, kept }: DetailChange) {
  const { counts, lastEntry } = detail;
  const _id = detailId(detail);
  if (kept === undefined) return { insertOne: { document: { _id, ...detail, repairs: 0 } } };
  const filter = { _id, account: detail.account, lastEntry: kept.detail.lastEntry, repairs: kept.repairs };
  return { updateOne: { filter, update: { $set: { counts, lastEntry, repairs: kept.repairs + 1 } } } };
}

/** Ids of details begin with account and month, so that those of a month, or from a day or hour on, are one range. */
export function detailRange({ account, month }: UsageMonth, from: string): { $gte: string; $lt: string } {
  const start = JSON.stringify([account, month]).slice(0, -1);
  // The comma after the month, then the character after the comma.
  return { $gte: `${start},"${from}`, $lt: `${start}-` };
}

/** The ids of the details of one day or hour. */
export function detailRangeOf({ account, month, start }: DetailPlace): { $gte: string; $lt: string } {
  const prefix = JSON.stringify([account, month, start]).slice(0, -1);
  return { $gte: `${prefix},`, $lt: `${prefix}-` };
}

export function readDetailDocument(found: unknown, unit: UsageUnit): KeptDetail {
  const { _id, repairs, ...detail } = detailDocumentSchema.parse(found);
  return { detail: { ...detail, unit } satisfies UsageDetail, repairs };
}

const refusalsDocumentSchema = z.object({
  _id: z.string(),
  account: z.string(),
  start: z.string(),
  keyId: z.string(),
  code: z.string(),
  requests: z.int(),
  lastEntry: z.string(),
});

type RefusalsDocument = z.infer<typeof refusalsDocumentSchema>;

export const refusalIndexes: CollectionIndexes = {
  collection: 'usage_refusals',
  indexes: [index({ account: 1, start: 1, _id: 1 }), index({ start: 1, _id: 1 })],
};

export function refusalsOf(database: Db): Collection<RefusalsDocument> {
  return database.collection(refusalIndexes.collection);
}

/** Adds refusals, unless the document is already past their entry: then the upsert fails with a duplicate key. */
export function refusalMoveOf({ account, start, keyId, code, requests, entry }: Refusals) {
  const filter = { _id: JSON.stringify([account, start, keyId, code]), account, lastEntry: { $lt: entry } };
  const update = {
    $inc: { requests },
    $set: { lastEntry: entry },
    $setOnInsert: { start, keyId, code },
  };
  return { updateOne: { filter, update, upsert: true } };
}

export function readRefusalsDocument(found: unknown): Refusals {
  const { _id, lastEntry: entry, ...refusals } = refusalsDocumentSchema.parse(found);
  return { ...refusals, entry };
}
