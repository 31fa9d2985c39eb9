import { z } from 'zod';
import { collections, createDocumentStores, type Store } from '../records/store.ts';
import { createUsageStore } from '../usage/usage-store.ts';
import { createGridFsFileStore, fileIndexes } from './gridfs-file-store.ts';
import { createMongoCalls } from './mongo-calls.ts';
import { createMongoDocuments } from './mongo-documents.ts';
import { type CollectionIndexes, listMissingIndexes } from './mongo-indexes.ts';
import { indexesOf } from './mongo-select.ts';
import { createMongoUsage } from './mongo-usage.ts';
import { detailIndexes, refusalIndexes, usageIndexes } from './mongo-usage-documents.ts';

const buildInfoSchema = z.object({ version: z.string() });

export const allIndexes: readonly CollectionIndexes[] = [
  ...[...usageIndexes, detailIndexes.day, detailIndexes.hour, refusalIndexes, ...fileIndexes],
  ...collections.map(indexesOf),
];

type Options = Omit<Parameters<typeof createMongoCalls>[1], 'indexes'> & { now?: () => number };

/**
 * The store in a MongoDB database. A call that failed with `SERVICE_UNAVAILABLE` may have been executed. Throws if the URL is invalid or
 * names no database.
 */
export function openMongoStore(url: string, { now, ...options }: Options): Store {
  const calls = createMongoCalls(url, { ...options, indexes: allIndexes });
  const { call, database, topology } = calls;
  return {
    ...createDocumentStores((collection) => createMongoDocuments(calls, collection)),
    usage: createUsageStore(createMongoUsage(calls), { now }),
    files: createGridFsFileStore(calls),

    async describe() {
      const answer: unknown = await call(() => database.command({ buildInfo: 1 }));
      return `mongodb ${buildInfoSchema.parse(answer).version} (${topology()})`;
    },

    async ping() {
      await call(() => database.command({ ping: 1 }));
    },

    listMissingIndexes: () => call(() => listMissingIndexes(database, allIndexes)),
    [Symbol.asyncDispose]: () => calls[Symbol.asyncDispose](),
  };
}
