import type { Collection, Db } from 'mongodb';
import { z } from 'zod';
import { countNames, type DetailCounts, usageCountsSchema } from '../usage/usage-counts.ts';
import { countsOf } from '../usage/usage-details.ts';
import { type UsageRecord, usageRecordSchema } from '../usage/usage-record.ts';
import type { MonthBatch, UsageMonth, UsageSum } from '../usage/usage-sums.ts';
import type { KeptSum } from '../usage/usage-tables.ts';
import { type CollectionIndexes, index } from './database/mongo-indexes.ts';

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
export function incrementsOf<Name extends keyof DetailCounts>(
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
