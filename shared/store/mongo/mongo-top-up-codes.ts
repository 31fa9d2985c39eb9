import type { Collection, Db, Filter } from 'mongodb';
import { z } from 'zod';
import { captureDecision } from '../adapters/capture-decision.ts';
import { type ShownCodeState, type TopUpCode, topUpCodeSchema } from '../top-up-codes/top-up-code.ts';
import type { TopUpCodeStore } from '../top-up-codes/top-up-code-store.ts';
import type { MongoCalls } from './database/mongo-calls.ts';
import { changeGuarded } from './database/mongo-change.ts';
import { type CollectionIndexes, index } from './database/mongo-indexes.ts';
import { withId } from './mongo-account-documents.ts';

const documentSchema = topUpCodeSchema.omit({ id: true }).extend({ _id: z.string() });
type CodeDocument = z.infer<typeof documentSchema>;

function codesOf(database: Db): Collection<CodeDocument> {
  return database.collection('top_up_codes', { ignoreUndefined: true });
}

export const topUpCodeIndexes: CollectionIndexes = {
  collection: 'top_up_codes',
  indexes: [index({ hash: 1 }, { unique: true }), index({ state: 1, _id: -1 })],
};

export function createMongoTopUpCodes({ call, durable, database }: MongoCalls): TopUpCodeStore {
  const codes = codesOf(database);

  async function read(wanted: { _id: string } | { hash: string }): Promise<TopUpCode | undefined> {
    const found = await codes.findOne(wanted, durable());
    return found === null ? undefined : readCode(found);
  }

  /** Every change leads to another state, and no state comes back. Returns false if the code has changed since the decision. */
  async function write(next: TopUpCode, decidedOn: TopUpCode | undefined): Promise<boolean> {
    if (decidedOn === undefined) return true; // there is no code to change
    const { _id, ...fields } = toDocument(next);
    const guard = { _id: decidedOn.id, state: decidedOn.state };
    return (await codes.updateOne(guard, { $set: fields })).matchedCount === 1;
  }

  return {
    async insertCodes(inserted) {
      await call(() => codes.insertMany(inserted.map(toDocument)));
    },

    findCode: (hash) => call(() => read({ hash })),

    async changeCode(id, decide) {
      const change = { read: () => read({ _id: id }), decide: captureDecision(decide), write };
      const result = await call((signal) => changeGuarded(change, signal));
      return result();
    },

    listCodes: ({ state, now, after, limit }) =>
      call(async () => {
        const wanted = { ...(state && filterOf(state, now)), ...(after !== undefined && { _id: { $lt: after } }) };
        return (await codes.find(wanted, { sort: { _id: -1 }, limit, ...durable() }).toArray()).map(readCode);
      }),

    listClaimedCodes: ({ before, after, limit }) =>
      call(async () => {
        const wanted = { state: 'claimed', 'redeemed.at': { $lt: before }, _id: { $gt: after } } as const;
        return (await codes.find(wanted, { sort: { _id: 1 }, limit, ...durable() }).toArray()).map(readCode);
      }),
  };
}

function filterOf(state: ShownCodeState, now: Date): Filter<CodeDocument> {
  const filters: Record<ShownCodeState, Filter<CodeDocument>> = {
    unused: { state: 'unused', $or: [{ expiresAt: { $exists: false } }, { expiresAt: { $gt: now } }] },
    expired: { state: 'unused', expiresAt: { $lte: now } },
    redeemed: { state: { $in: ['claimed', 'redeemed'] } },
    revoked: { state: 'revoked' },
  };
  return filters[state];
}

function toDocument({ id: _id, ...fields }: TopUpCode): CodeDocument {
  return documentSchema.parse({ _id, ...fields });
}

function readCode(found: CodeDocument): TopUpCode {
  return topUpCodeSchema.parse(withId(found));
}
