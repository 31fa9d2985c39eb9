import type { Collection, Db } from 'mongodb';
import { z } from 'zod';
import {
  addRecord,
  countNames,
  type DetailCounts,
  noDetailCounts,
  totalOf,
  usageCountsSchema,
} from '../usage/usage-counts.ts';
import type { UsageDay } from '../usage/usage-details.ts';
import { type UsageRecord, usageRecordSchema } from '../usage/usage-record.ts';
import type { MonthBatch, UsageMonth, UsageSum } from '../usage/usage-sums.ts';
import type { Detailed, KeptSum } from '../usage/usage-tables.ts';
import { type CollectionIndexes, index } from './database/mongo-indexes.ts';

const recordDocumentSchema = usageRecordSchema.omit({ requestId: true }).extend({ _id: z.string() });

/** A release without details does not write `detailedTo` and `detailedRepairs`, and leaves them as they are. */
const sumDocumentSchema = z.object({
  _id: z.string(),
  account: z.string(),
  month: z.string(),
  lastEntry: z.string(),
  repairs: z.int(),
  total: usageCountsSchema,
  detailedTo: z.string().default(''),
  detailedRepairs: z.int().default(0),
});

/** What a release without details stores as the days of a month, and requires to be an object. */
const previousDaysSchema = z.record(z.string(), z.record(z.string(), usageCountsSchema));

/**
 * By month and id to remove old documents, by the id of the answer to find one request. The others read one account's records in the order of
 * the outbox or of admission, and iterate over all months.
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
type SumDocument = z.infer<typeof sumDocumentSchema> & { days: z.infer<typeof previousDaysSchema> };

export function recordsOf(database: Db): Collection<RecordDocument> {
  return database.collection('usage_records', { ignoreUndefined: true });
}

export function sumsOf(database: Db): Collection<SumDocument> {
  return database.collection('usage_sums');
}

/** The fields of a sum. Without the days that a release without details wrote, which can be megabytes. */
export const sumFields = Object.fromEntries(Object.keys(sumDocumentSchema.shape).map((name) => [name, 1]));

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
 * and fails with a duplicate key. `isDetailed`: the details contain these records and all before them. Then the days that the previous
 * release wrote are removed, because they can be megabytes. A month that gets no more usage keeps them: that release still shows them.
 */
export function moveOf(batch: MonthBatch, { isDetailed }: { isDetailed: boolean }) {
  const { account, month, unsummed, lastEntry } = batch;
  const counts = { ...noDetailCounts };
  for (const record of unsummed) addRecord(counts, record);
  const filter = { _id: sumId(batch), lastEntry: { $lt: unsummed[0]?.entry ?? '' } };
  const update = {
    $inc: incrementsOf('total', counts, countNames),
    $set: { lastEntry, ...(isDetailed && { detailedTo: lastEntry, days: {} }) },
    $setOnInsert: { account, month, repairs: 0, ...(!isDetailed && { days: {} }) },
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

/** The details contain all of this sum. */
export function toSumDocument(sum: UsageSum, repairs: number): SumDocument {
  return { _id: sumId(sum), ...sum, repairs, days: {}, detailedTo: sum.lastEntry, detailedRepairs: repairs };
}

export function readSumDocument(found: unknown): KeptSum {
  const { _id, repairs, detailedTo, detailedRepairs, ...sum } = sumDocumentSchema.parse(found);
  return { sum, repairs, detailed: { lastEntry: detailedTo, repairs: detailedRepairs } };
}

const markSchema = sumDocumentSchema.pick({
  _id: true,
  account: true,
  month: true,
  lastEntry: true,
  repairs: true,
  detailedTo: true,
  detailedRepairs: true,
});

/** The fields of a sum that say whether its details are complete. */
export const markFields = Object.fromEntries(Object.keys(markSchema.shape).map((name) => [name, 1]));

export function readMark(
  found: unknown,
): UsageMonth & { sum: { lastEntry: string }; repairs: number; detailed: Detailed } {
  const { account, month, lastEntry, repairs, detailedTo, detailedRepairs } = markSchema.parse(found);
  return { account, month, sum: { lastEntry }, repairs, detailed: { lastEntry: detailedTo, repairs: detailedRepairs } };
}

const previousSumSchema = z.object({ total: usageCountsSchema, days: previousDaysSchema });

/** Returns the days that a release without details has written, if they add up to the total. */
export function readPreviousDays(found: unknown): UsageDay[] | undefined {
  const { total, days } = previousSumSchema.parse(found);
  const flat = Object.entries(days).flatMap(([day, models]) =>
    Object.entries(models).map(([name, counts]): UsageDay => ({ day, model: decodeName(name), ...counts })),
  );
  const sum = totalOf(flat);
  return countNames.every((name) => sum[name] === total[name]) ? flat : undefined;
}

/** That release encodes a name as a step of a field path. */
function decodeName(encoded: string): string {
  return encoded.replace(/%([0-9A-F]{2})/g, (_match, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
}
