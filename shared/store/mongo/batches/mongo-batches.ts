import { z } from 'zod';
import { type Batch, batchStates } from '../../../batches/batch.ts';
import { hasJustEnded } from '../../../batches/batch-states.ts';
import { captureDecision } from '../../adapters/capture-decision.ts';
import { readPages } from '../../adapters/read-pages.ts';
import { batchStatsOf, unfinishedStates } from '../../batches/batch-stats.ts';
import type { BatchRecords } from '../../batches/batch-store.ts';
import type { MongoCalls } from '../database/mongo-calls.ts';
import { changeGuarded } from '../database/mongo-change.ts';
import { refusedAsDuplicates } from '../database/mongo-duplicates.ts';
import { batchesOf, readBatchDocument, toBatchDocument, toBatchUpdate } from './mongo-batch-documents.ts';

const batchesAtOnce = 200;

const groupsSchema = z.array(
  z
    .object({ _id: z.enum(batchStates), count: z.int(), tokens: z.int(), oldestAt: z.date() })
    .transform(({ _id: state, ...group }) => ({ state, ...group })),
);
const accountsSchema = z.array(z.object({ _id: z.string() }));

const isOpen = { open: { $gt: '' } };
const isUnfinished = { ...isOpen, state: { $in: [...unfinishedStates] } };

export function createMongoBatches(calls: MongoCalls): BatchRecords {
  const { call, durable, database } = calls;
  const batches = batchesOf(database);

  async function read(wanted: { _id: string } | { claim: string }): Promise<Batch | undefined> {
    const found = await batches.findOne(wanted, durable());
    return found === null ? undefined : readBatchDocument(found);
  }

  /** Returns false if the batch has changed since the decision. */
  async function write(next: Batch, decidedOn: Batch | undefined): Promise<boolean> {
    if (decidedOn === undefined) return true; // there is no batch to change
    const { id, version } = decidedOn;
    const document = toBatchDocument({ ...next, id, version: version + 1 });
    const update = toBatchUpdate({ ...document, ...(hasJustEnded(decidedOn, next) && { ended: id }) });
    return (await batches.updateOne({ _id: id, version }, update)).matchedCount === 1;
  }

  return {
    async insertBatch(batch, claim) {
      const document = { ...toBatchDocument(batch), ...(claim !== undefined && { claim }) };
      await call(() => refusedAsDuplicates(batches.insertMany([document], { ordered: false })));
    },

    findBatch: (id) => call(() => read({ _id: id })),

    findClaimedBatch: (claim) => call(() => read({ claim })),

    listBatches: (account, { limit, after, order = 'desc', keyIds }) =>
      readPages<Batch, string | undefined>({
        limit,
        pageMax: batchesAtOnce,
        after,
        placeOf: ({ id }) => id,
        read: (page) =>
          call(async () => {
            const isNext = order === 'asc' ? { $gt: page.after ?? '' } : { $lt: page.after ?? '~' };
            const options = { sort: { _id: order === 'asc' ? 1 : -1 }, limit: page.limit, ...durable() } as const;
            const isOfKeys = keyIds && { keyId: { $in: [...keyIds] } };
            return (await batches.find({ account, ...isOfKeys, _id: isNext }, options).toArray()).map(
              readBatchDocument,
            );
          }),
      }),

    async changeBatch(id, decide) {
      const change = { read: () => read({ _id: id }), decide: captureDecision(decide), write };
      const result = await call((signal) => changeGuarded(change, signal));
      return result();
    },

    async removeBatch(id) {
      await call(() => batches.deleteOne({ _id: id, open: { $exists: false } }));
    },

    listEndedBatches: (limit) =>
      call(async () => {
        const options = { sort: { ended: 1 }, limit, ...durable() } as const;
        return (await batches.find({ ended: { $gt: '' } }, options).toArray()).map(readBatchDocument);
      }),

    async forgetEndedBatches(ids) {
      await call(() => batches.updateMany({ _id: { $in: [...ids] } }, { $unset: { ended: '' } }));
    },

    ...createOpenBatches(calls),
  };
}

function createOpenBatches({ call, durable, database }: MongoCalls) {
  const batches = batchesOf(database);

  return {
    listOpenAccounts: () =>
      call(async () => {
        const pipeline = [{ $match: isOpen }, { $group: { _id: '$account' } }];
        const found = accountsSchema.parse(await batches.aggregate(pipeline, durable()).toArray());
        return found.map(({ _id: account }) => account);
      }),

    listOpenBatches: (accounts) =>
      readPages<Batch, string>({
        pageMax: batchesAtOnce,
        after: '',
        placeOf: ({ id }) => id,
        read: ({ after, limit }) =>
          call(async () => {
            const options = { sort: { open: 1 }, limit, ...durable() } as const;
            const wanted = { account: { $in: [...accounts] }, open: { $gt: after } };
            return (await batches.find(wanted, options).toArray()).map(readBatchDocument);
          }),
      }),

    isInputOfUnfinished: (file) =>
      call(async () => (await batches.findOne({ ...isUnfinished, inputFile: file }, durable())) !== null),

    describeBatches: () =>
      call(async () => {
        const sums = { count: { $sum: 1 }, tokens: { $sum: '$tokens' }, oldestAt: { $min: '$createdAt' } };
        const pipeline = [{ $match: isOpen }, { $group: { _id: '$state', ...sums } }];
        return batchStatsOf(groupsSchema.parse(await batches.aggregate(pipeline, durable()).toArray()));
      }),
  } satisfies Partial<BatchRecords>;
}
