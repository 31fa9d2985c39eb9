import type { Collection, Db } from 'mongodb';
import { z } from 'zod';
import { type UsageRecord, usageRecordSchema } from '../usage/usage-record.ts';
import {
  countNames,
  createTally,
  inOrder,
  type MonthBatch,
  totalOf,
  type UsageCounts,
  type UsageDay,
  type UsageMonth,
  type UsageSum,
  usageCountsSchema,
} from '../usage/usage-sums.ts';
import type { KeptSum } from '../usage/usage-tables.ts';

const recordDocumentSchema = usageRecordSchema.omit({ requestId: true }).extend({ _id: z.string() });

const sumDocumentSchema = z.object({
  _id: z.string(),
  account: z.string(),
  month: z.string(),
  lastEntry: z.string(),
  repairs: z.int(),
  total: usageCountsSchema,
  days: z.record(z.string(), z.record(z.string(), usageCountsSchema)),
});

type RecordDocument = z.infer<typeof recordDocumentSchema>;
type SumDocument = z.infer<typeof sumDocumentSchema>;

export function recordsOf(database: Db): Collection<RecordDocument> {
  return database.collection('usage_records', { ignoreUndefined: true });
}

export function sumsOf(database: Db): Collection<SumDocument> {
  return database.collection('usage_sums');
}

/** Indexes: by month, to find old documents; the others read one account's records in order, and iterate over all months. */
export async function createUsageIndexes(database: Db): Promise<void> {
  await recordsOf(database).createIndexes([{ key: { account: 1, month: 1, entry: 1 } }, { key: { month: 1 } }]);
  await sumsOf(database).createIndexes([{ key: { account: 1, month: 1 } }, { key: { month: 1 } }]);
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
 * and fails with a duplicate key.
 */
export function moveOf(batch: MonthBatch) {
  const { account, month, unsummed, lastEntry } = batch;
  const filter = { _id: sumId(batch), lastEntry: { $lt: unsummed[0]?.entry ?? '' } };
  const update = { $inc: incrementsOf(unsummed), $set: { lastEntry }, $setOnInsert: { account, month, repairs: 0 } };
  return { updateOne: { filter, update, upsert: true } };
}

export function toSumDocument({ days, ...sum }: UsageSum, repairs: number): SumDocument {
  const document: SumDocument = { _id: sumId(sum), ...sum, repairs, days: {} };
  for (const { day, model, ...counts } of days) {
    const models = document.days[day] ?? {};
    document.days[day] = { ...models, [encodeName(model)]: counts };
  }
  return document;
}

export function readSumDocument(found: unknown): KeptSum {
  const { _id, repairs, days, ...sum } = sumDocumentSchema.parse(found);
  const flat = Object.entries(days).flatMap(([day, models]) =>
    Object.entries(models).map(([name, counts]): UsageDay => ({ day, model: decodeName(name), ...counts })),
  );
  return { sum: { ...sum, days: inOrder(flat) }, repairs };
}

function incrementsOf(records: readonly UsageRecord[]): Record<string, number> {
  const tally = createTally();
  tally.add(records);
  const days = tally.days();
  const increments: Record<string, number> = {};
  const add = (path: string, counts: UsageCounts) => {
    for (const name of countNames) increments[`${path}.${name}`] = counts[name];
  };
  add('total', totalOf(days));
  for (const { day, model, ...counts } of days) add(`days.${day}.${encodeName(model)}`, counts);
  return increments;
}

/** Encodes a name as a step of a field path: a dot would end the step, and a dollar sign would make it an operator. */
function encodeName(name: string): string {
  return name.replace(/[%.$]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);
}

function decodeName(encoded: string): string {
  return encoded.replace(/%([0-9A-F]{2})/g, (_match, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
}
