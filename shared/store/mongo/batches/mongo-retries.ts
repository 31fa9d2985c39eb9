import { type BatchRetry, batchRetrySchema } from '../../../batches/batch.ts';
import { readPages } from '../../adapters/read-pages.ts';
import { nextRetry } from '../../batches/batch-lines.ts';
import type { LineRecords } from '../../batches/batch-store.ts';
import type { MongoCalls } from '../database/mongo-calls.ts';
import { changeGuarded } from '../database/mongo-change.ts';
import { refusedAsDuplicates } from '../database/mongo-duplicates.ts';
import { lineId, linesAfter, readRetryDocument, retriesOf, toRetryDocument } from './mongo-batch-documents.ts';

const retriesAtOnce = 1_000;

type RetryRecords = Pick<LineRecords, 'recordRetry' | 'listRetries'> & {
  /** Reads the recorded retry of one line, within a call. */
  readRetry(batch: string, line: number): Promise<BatchRetry | undefined>;
};

export function createMongoRetries({ call, durable, database }: MongoCalls): RetryRecords {
  const retries = retriesOf(database);

  async function readRetry(batch: string, line: number): Promise<BatchRetry | undefined> {
    const found = await retries.findOne({ _id: lineId(batch, line) }, durable());
    return found === null ? undefined : readRetryDocument(found);
  }

  /** Returns false if the stored retry has changed since the decision. */
  async function writeRetry(next: BatchRetry, decidedOn: BatchRetry | undefined): Promise<boolean> {
    const { _id, ...fields } = toRetryDocument(next);
    if (decidedOn === undefined)
      return (await refusedAsDuplicates(retries.insertMany([{ _id, ...fields }], { ordered: false }))).length === 0;
    return (await retries.updateOne({ _id, number: decidedOn.number }, { $set: fields })).matchedCount === 1;
  }

  return {
    readRetry,

    async recordRetry(retry) {
      const { batch, line } = retry;
      const decide = nextRetry(batchRetrySchema.parse(retry));
      return call((signal) => changeGuarded({ read: () => readRetry(batch, line), decide, write: writeRetry }, signal));
    },

    listRetries: (batch) =>
      readPages<BatchRetry, number>({
        pageMax: retriesAtOnce,
        after: 0,
        placeOf: ({ line }) => line,
        read: ({ after, limit }) =>
          call(async () => {
            const options = { sort: { _id: 1 }, limit, ...durable() } as const;
            return (await retries.find(linesAfter(batch, after), options).toArray()).map(readRetryDocument);
          }),
      }),
  };
}
