import { z } from 'zod';
import { batchStates } from '../../../batches/batch.ts';
import type { LineRecords } from '../../batches/batch-store.ts';
import type { MongoCalls } from '../database/mongo-calls.ts';
import { batchesOf, linesAfter, resultsOf, retriesOf } from './mongo-batch-documents.ts';
import { createMongoResults } from './mongo-results.ts';
import { createMongoRetries } from './mongo-retries.ts';

const removedAtOnce = 500;

const batchSchema = z.object({ state: z.enum(batchStates), open: z.string().optional() });

export function createMongoLines(calls: MongoCalls): LineRecords {
  const { call, durable, database } = calls;
  const batches = batchesOf(database);
  const removable = [resultsOf(database), retriesOf(database)];
  const { readResult, ...results } = createMongoResults(calls);
  const { readRetry, ...retries } = createMongoRetries(calls);

  async function removePiece(batch: string, limit: number, signal: AbortSignal): Promise<number> {
    for (const collection of removable) {
      const options = { projection: { _id: 1 }, limit } as const;
      const found = await database
        .collection<{ _id: string }>(collection.collectionName)
        .find(linesAfter(batch, 0), options)
        .toArray();
      if (found.length === 0) continue;
      signal.throwIfAborted();
      await collection.deleteMany({ _id: { $in: found.map(({ _id }) => _id) } });
      return found.length;
    }
    return 0;
  }

  return {
    ...results,
    ...retries,

    /**
     * Reads the state last: results are removed only when their batch is over, so a line without a result in a running batch has not ended.
     */
    findLine: (batch, line) =>
      call(async () => {
        const [result, retry] = await Promise.all([readResult(batch, line), readRetry(batch, line)]);
        const found = await batches.findOne({ _id: batch }, { projection: { state: 1, open: 1 }, ...durable() });
        if (found === null) return undefined;
        const { state, open } = batchSchema.parse(found);
        return { state, open: open !== undefined, number: retry?.number ?? 1, retry, result };
      }),

    async removeResults(batch, limit) {
      for (let removed = 0; removed < limit; ) {
        const most = Math.min(removedAtOnce, limit - removed);
        const piece = await call((signal) => removePiece(batch, most, signal));
        if (piece === 0) return true;
        removed += piece;
      }
      return false;
    },
  };
}
