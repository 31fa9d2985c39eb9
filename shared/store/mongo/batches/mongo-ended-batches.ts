import type { EndedBatches } from '../../batches/batch-store.ts';
import type { MongoCalls } from '../database/mongo-calls.ts';
import { batchesOf, readBatchDocument } from './mongo-batch-documents.ts';

export function createMongoEndedBatches({ call, durable, database }: MongoCalls): EndedBatches {
  const batches = batchesOf(database);
  return {
    listEndedBatches: (limit) =>
      call(async () => {
        const options = { sort: { ended: 1 }, limit, ...durable() } as const;
        return (await batches.find({ ended: { $gt: '' } }, options).toArray()).map(readBatchDocument);
      }),

    async forgetEndedBatches(ids) {
      await call(() => batches.updateMany({ _id: { $in: [...ids] } }, { $unset: { ended: '' } }));
    },
  };
}
