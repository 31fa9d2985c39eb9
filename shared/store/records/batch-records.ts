import { z } from 'zod';
import { type Batch, type BatchState, batchSchema, batchStates } from '../../batches/batch.ts';
import {
  type BatchRoom,
  batchRoomSchema,
  type DecideRoom,
  emptyRoom,
  type TakeOutcome,
  type WantedBytes,
} from '../../batches/batch-room.ts';
import { hasJustEnded, isOver } from '../../batches/batch-states.ts';
import { storedDate, storedJson } from '../../json/stored-values.ts';
import { type Collection, type Decide, type OpenDocuments, withNextVersion } from '../documents.ts';

/**
 * A page, newest first if `order` is omitted. `after` is the id of the item before its first. With `keyIds` it has only what was made with
 * one of these keys; reading it takes no more than reading a page of each of them.
 */
export type Page = {
  limit: number;
  after?: string | undefined;
  order?: 'asc' | 'desc' | undefined;
  keyIds?: readonly string[] | undefined;
};

/**
 * `count` is the number of open batches by state, without states that have none. Of those `validating` or `in_progress`, `oldestAt` is when
 * the first was created, and `tokens` is an estimate of all their prompts.
 */
export type BatchStats = {
  count: Partial<Record<BatchState, number>>;
  oldestAt: Date | undefined;
  tokens: number;
};

/**
 * `open` and `ended` are the batch's own id, so that indexes have the batches that are open, and those whose event waits, in their order.
 * `claim` is of the request that created it. `metadata` is text, because names from a client would be read as paths and operators.
 */
const documentSchema = batchSchema.extend({
  metadata: z.string().nullable(),
  open: z.string().optional(),
  ended: z.string().optional(),
  claim: z.string().optional(),
});
type BatchDocument = z.infer<typeof documentSchema>;

const batchesOf = {
  name: 'batches',
  schema: documentSchema,
  id: 'id',
  indexes: {
    byAccount: { fields: ['account'] },
    byKey: { fields: ['account', 'keyId'] },
    byClaim: { fields: ['claim'], isUnique: true },
    open: { fields: ['open'], isSparse: true, also: ['account', 'state', 'tokens', 'createdAt'] },
    openByAccount: { fields: ['account', 'open'] },
    openByInput: { fields: ['inputFile', 'open'] },
    ended: { fields: ['ended'], isSparse: true },
  },
} as const satisfies Collection;

const roomsOf = {
  name: 'batch_rooms',
  schema: batchRoomSchema.extend({ account: z.string() }),
  id: 'account',
  indexes: {},
} as const satisfies Collection;

export const batchCollections = [batchesOf, roomsOf];

const changesAtOnce = 10;

/** Documents without a text are not in a range of texts. */
const anyText = '';

const metadataSchema = storedJson.pipe(batchSchema.shape.metadata);

export function createBatchRecords(open: OpenDocuments) {
  const batches = open(batchesOf);
  return {
    /**
     * Inserts a batch. An existing batch with this id remains unchanged, so that the call can be repeated. Nothing is inserted if another
     * batch has the same `claim`, an id of the request that creates it.
     */
    insertBatch: async (batch: Batch, claim?: string): Promise<void> =>
      void (await batches.insert([{ ...toDocument(batch), claim }])),

    /** Finds the batch that was inserted with this claim. */
    async findClaimedBatch(claim: string): Promise<Batch | undefined> {
      const [found] = await batches.listFields('byClaim', ['id'], { is: [claim], limit: 1 });
      // Only the result of a change is safe from a failover, also of one that changes nothing.
      return found && batches.change(found.id, (kept) => ({ result: kept && toBatch(kept) }));
    },

    async findBatch(id: string): Promise<Batch | undefined> {
      const found = await batches.find(id);
      return found && toBatch(found);
    },

    async listBatches(account: string, { limit, after: id, order = 'desc', keyIds }: Page): Promise<Batch[]> {
      const page = { after: id === undefined ? undefined : { id }, order, limit };
      const found =
        keyIds === undefined
          ? batches.list('byAccount', { is: [account], ...page })
          : batches.list('byKey', { is: [account, keyIds], ...page });
      return (await found).map(toBatch);
    },

    /**
     * Changes one batch atomically as `decide` returns. `next` is written only if the batch has not changed in the meantime; otherwise
     * `decide` is called again. It is written with the next `version`; `decide` does not change the version. If the batch does not exist,
     * nothing is written.
     */
    changeBatch: <Result>(id: string, decide: Decide<Batch, Result>): Promise<Result> =>
      batches.change(id, (kept) => {
        const before = kept && toBatch(kept);
        const { result, next } = withNextVersion(decide)(before);
        if (kept === undefined || before === undefined || next === undefined) return { result };
        const ended = hasJustEnded(before, next) ? id : kept.ended;
        return { result, next: { ...toDocument({ ...next, id }), claim: kept.claim, ended } };
      }),

    /** Removes a batch that is not open. Idempotent. */
    async removeBatch(id: string): Promise<void> {
      await batches.change(id, (kept) => ({ result: undefined, ...(!kept?.open && { isRemoved: true }) }));
    },

    /**
     * Lists up to `limit` batches that have ended, and whose event still has to be created, in order of their ids. The update that ends a
     * batch also marks it.
     */
    async listEndedBatches(limit: number): Promise<Batch[]> {
      return (await batches.list('ended', { limit })).map(toBatch);
    },

    /** Removes the marks of these batches. Idempotent. */
    async forgetEndedBatches(ids: readonly string[]): Promise<void> {
      const forget = (id: string) =>
        batches.change(id, (kept) => ({ result: undefined, ...(kept?.ended && { next: withoutMark(kept) }) }));
      for (let from = 0; from < ids.length; from += changesAtOnce)
        await Promise.all(ids.slice(from, from + changesAtOnce).map(forget));
    },

    ...createOpenBatches(open),
  };
}

export type BatchRecords = ReturnType<typeof createBatchRecords>;

function createOpenBatches(open: OpenDocuments) {
  const batches = open(batchesOf);
  return {
    /** Lists the accounts that have open batches, each once, in no order. */
    async listOpenAccounts(): Promise<string[]> {
      return (await batches.tally('open', { by: 'account' })).map(({ value }) => openAccountSchema.parse(value));
    },

    /** Lists the open batches of these accounts, in order of their ids. */
    async listOpenBatches(accounts: readonly string[]): Promise<Batch[]> {
      return (await batches.list('openByAccount', { is: [accounts], from: anyText })).map(toBatch);
    },

    /** Returns whether an open batch that is not over has this file as its input. */
    async isInputOfUnfinished(file: string): Promise<boolean> {
      const found = await batches.listFields('openByInput', ['state'], { is: [file], from: anyText });
      return !found.every(isOver);
    },

    async describeBatches(): Promise<BatchStats> {
      const tallies = await batches.tally('open', { by: 'state', sum: 'tokens', least: 'createdAt' });
      return statsOf(groupsSchema.parse(tallies));
    },
  };
}

function toDocument({ open, metadata, ...batch }: Batch): BatchDocument {
  return { ...batch, metadata: metadata && JSON.stringify(metadata), ...(open && { open: batch.id }) };
}

function toBatch({ open, metadata, ended: _, claim: __, ...batch }: BatchDocument): Batch {
  return { ...batch, metadata: metadata === null ? null : metadataSchema.parse(metadata), open: open !== undefined };
}

function withoutMark({ ended: _, ...kept }: BatchDocument): BatchDocument {
  return kept;
}

/** The states in which lines wait to run, or for their file to be validated. */
const waitingStates: readonly BatchState[] = ['validating', 'in_progress'];

/** The open batches of one state. */
const openAccountSchema = z.string();
const groupsSchema = z.array(z.object({ value: z.enum(batchStates), count: z.int(), sum: z.int(), least: storedDate }));

function statsOf(groups: Readonly<z.infer<typeof groupsSchema>>): BatchStats {
  const waiting = groups.filter(({ value }) => waitingStates.includes(value));
  const [oldestAt] = waiting.map(({ least }) => least).sort((one, other) => Number(one) - Number(other));
  const tokens = waiting.reduce((total, { sum }) => total + sum, 0);
  return { count: Object.fromEntries(groups.map(({ value, count }) => [value, count])), oldestAt, tokens };
}

/** What the unfinished batches of each account hold, one document for each account (contract.md#ho6-room-of-accounts). */
export function createRoomRecords(open: OpenDocuments) {
  const rooms = open(roomsOf);
  return {
    /** Returns an empty room for an account without one. */
    findRoom: async (account: string): Promise<BatchRoom> => toRoom(await rooms.find(account)),

    /**
     * Changes the room of an account atomically as `decide` returns. `next` is written only if the room has not changed in the meantime;
     * otherwise `decide` is called again.
     */
    changeRoom: <Result>(account: string, decide: DecideRoom<Result>): Promise<Result> =>
      rooms.change(account, (kept) => {
        const { result, next } = decide(toRoom(kept));
        return { result, ...(next && { next: { ...next, account } }) };
      }),

    /** Adds bytes of results to the entry of their batch, all or nothing. Calls at once do not wait for each other. */
    async takeBytes(account: string, { batch, bytes, bytesMax }: WantedBytes): Promise<TakeOutcome> {
      const amounts = { bytes, [`entries.${batch}.bytes`]: bytes };
      if (await rooms.add(account, amounts, { bytes: bytesMax })) return 'taken';
      return toRoom(await rooms.find(account)).entries[batch] === undefined ? 'absent' : 'full';
    },
  };
}

export type RoomRecords = ReturnType<typeof createRoomRecords>;

function toRoom(kept: ({ account: string } & BatchRoom) | undefined): BatchRoom {
  return kept === undefined ? emptyRoom : batchRoomSchema.parse(kept);
}
