import { z } from 'zod';
import { fileChangeSchema, filePurposes, type StoredFile } from '../../../batches/batch.ts';
import { readPages } from '../../adapters/read-pages.ts';
import type { FileRecords } from '../../batches/batch-store.ts';
import type { MongoCalls } from '../database/mongo-calls.ts';
import { refusedAsDuplicates } from '../database/mongo-duplicates.ts';
import { filesOf, readFileDocument, toFileDocument } from './mongo-batch-documents.ts';

const filesAtOnce = 1_000;
const countSchema = z.array(z.object({ files: z.int(), bytes: z.int() }));

export function createMongoFiles({ call, durable, database }: MongoCalls): FileRecords {
  const files = filesOf(database);

  return {
    insertFile: (file) =>
      call(async () => {
        const inserting = files.insertMany([toFileDocument(file)], { ordered: false });
        return (await refusedAsDuplicates(inserting)).length === 0;
      }),

    findFile: (id) =>
      call(async () => {
        const found = await files.findOne({ _id: id }, durable());
        return found === null ? undefined : readFileDocument(found);
      }),

    listFiles: (account, { limit, after, order = 'desc', purpose, keyIds }) =>
      readPages<StoredFile, string | undefined>({
        limit,
        pageMax: filesAtOnce,
        after,
        placeOf: ({ id }) => id,
        read: (page) =>
          call(async () => {
            const isNext = page.after !== undefined && { _id: { [order === 'asc' ? '$gt' : '$lt']: page.after } };
            const isOfKeys = keyIds && { keyId: { $in: [...keyIds] }, purpose: { $in: [...filePurposes] } };
            const filter = { account, state: 'ready' as const, ...isOfKeys, ...(purpose && { purpose }), ...isNext };
            const options = { sort: { _id: order === 'asc' ? 1 : -1 }, limit: page.limit, ...durable() } as const;
            return (await files.find(filter, options).toArray()).map(readFileDocument);
          }),
      }),

    changeFile: (id, from, change) =>
      call(async () => {
        // Sets the state too, because an empty `$set` is an error for servers before 5.0.
        const update: object = { $set: { state: from, ...fileChangeSchema.parse(change) } };
        return (await files.updateOne({ _id: id, state: from }, update)).matchedCount === 1;
      }),

    async removeFile(id) {
      await call(() => files.deleteOne({ _id: id }));
    },

    countFiles: (account) =>
      call(async () => {
        const pipeline = [
          { $match: { account, state: { $in: ['ready', 'writing'] } } },
          { $group: { _id: null, files: { $sum: 1 }, bytes: { $sum: '$bytes' } } },
        ];
        const [count] = countSchema.parse(await files.aggregate(pipeline, durable()).toArray());
        return count ?? { files: 0, bytes: 0 };
      }),

    listFilesToRemove: (at, writingSince, limit) =>
      call(async () => {
        const options = { sort: { expiresAt: 1 }, limit, ...durable() } as const;
        return (await files.find(isToRemove(at, writingSince), options).toArray()).map(readFileDocument);
      }),
  };
}

function isToRemove(at: Date, writingSince: Date) {
  return {
    $or: [
      { state: 'deleting' as const },
      { state: 'ready' as const, expiresAt: { $lte: at } },
      { state: 'writing' as const, createdAt: { $lt: writingSince } },
    ],
  };
}
