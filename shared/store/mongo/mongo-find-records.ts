import type { Filter } from 'mongodb';
import { type RecordPage, type UsageRecord, usageRecordSchema } from '../usage/usage-record.ts';
import type { UsageTables } from '../usage/usage-tables.ts';
import type { MongoCalls } from './database/mongo-calls.ts';
import { type RecordDocument, recordsOf, withRequestId } from './mongo-usage-documents.ts';

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
