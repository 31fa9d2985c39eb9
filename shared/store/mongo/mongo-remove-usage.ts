import type { Collection } from 'mongodb';
import type { UsageTables } from '../usage/usage-tables.ts';
import type { MongoCalls } from './database/mongo-calls.ts';
import { detailsOf } from './mongo-detail-documents.ts';
import { recordsOf, sumsOf } from './mongo-usage-documents.ts';

type OfMonth = { _id: string; month: string };

/** A piece takes a small part of a call's 5 s also on a slow server. */
const pieceMsWanted = 500;
const [piecesMin, piecesMax] = [500, 20_000];

/**
 * Removes one month after the other, each in pieces up to a boundary in the order of ids, which the index on month and id finds. Details
 * come after their records, and sums last, because they list the months.
 */
export function createRemoveUsage({ call, database }: MongoCalls): UsageTables['removeBefore'] {
  const collections = [recordsOf(database), detailsOf(database), sumsOf(database)].map(({ collectionName }) =>
    database.collection<OfMonth>(collectionName),
  );
  let piece = piecesMin;

  async function removePiece(collection: Collection<OfMonth>, month: string, signal: AbortSignal): Promise<number> {
    const byId = { projection: { _id: 1 }, sort: { _id: 1 }, skip: piece - 1 } as const;
    const boundary = await collection.findOne({ month }, byId);
    signal.throwIfAborted();
    const filter = boundary === null ? { month } : { month, _id: { $lte: boundary._id } };
    return (await collection.deleteMany(filter)).deletedCount;
  }

  return async function removeBefore(month) {
    const startedAt = performance.now();
    try {
      return await call(async (signal) => {
        for (const collection of collections) {
          while (true) {
            const options = { projection: { _id: 0, month: 1 }, sort: { month: 1 } } as const;
            const oldest = await collection.findOne({ month: { $lt: month } }, options);
            if (oldest === null) break;
            const removed = await removePiece(collection, oldest.month, signal);
            if (removed > 0) return removed; // otherwise another process has removed the same piece
          }
        }
        return 0;
      });
    } finally {
      const factor = pieceMsWanted / Math.max(1, performance.now() - startedAt);
      piece = Math.round(Math.min(piecesMax, Math.max(piecesMin, piece * Math.min(2, factor))));
    }
  };
}
