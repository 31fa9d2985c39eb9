import type { Collection, Decide, OpenDocuments, Query } from '../documents/documents.ts';
import { listWanted } from '../documents/lists.ts';
import { valueTaken } from '../documents/store-errors.ts';
import { type ShownCodeState, shownStateOf, type TopUpCode, topUpCodeSchema } from './top-up-code.ts';

/** Codes in the state `state` at the time `now`, all if it is omitted. `after` is the id of the code before the first. */
export type CodePage = { state?: ShownCodeState | undefined; now: Date; after?: string | undefined; limit: number };

const codesOf = {
  name: 'top_up_codes',
  schema: topUpCodeSchema,
  id: 'id',
  indexes: { byHash: { fields: ['hash'], isUnique: true }, byState: { fields: ['state'] } },
} as const satisfies Collection;

export const topUpCodeCollections = [codesOf];

/** The states that are kept of codes in a state that is shown. */
const keptStates = {
  unused: ['unused'],
  expired: ['unused'],
  redeemed: ['claimed', 'redeemed'],
  revoked: ['revoked'],
} as const satisfies Record<ShownCodeState, readonly TopUpCode['state'][]>;

/** Top-up codes. They are never removed, so each is also the record of who created it, and who redeemed or revoked it. */
export function createTopUpCodeStore(open: OpenDocuments) {
  const codes = open(codesOf);
  const listByState = (query: Query) => codes.list('byState', query);
  return {
    /** Inserts new codes. If it fails, some of them may have been inserted: no one knows these codes. */
    async insertCodes(inserted: readonly TopUpCode[]): Promise<void> {
      const refused = await codes.insert(inserted);
      if (refused.length > 0) throw valueTaken(new Error(`of the new codes, ${refused.length} exist`));
    },

    findCode: async (hash: string): Promise<TopUpCode | undefined> =>
      (await codes.list('byHash', { is: [hash], limit: 1 }))[0],
    /** Changes a code as `decide` returns. `next` is written only if its state has not changed; otherwise `decide` is called again. */
    changeCode: <Result>(id: string, decide: Decide<TopUpCode, Result>): Promise<Result> =>
      codes.change(id, (code) => {
        const { result, next } = decide(code);
        return code === undefined || next === undefined ? { result } : { result, next };
      }),

    /** Lists codes, newest first. */
    listCodes({ state, now, after: id, limit }: CodePage): Promise<TopUpCode[]> {
      const page = { after: id === undefined ? undefined : { id }, order: 'desc', limit } as const;
      if (state === undefined) return codes.list('id', page);
      return listWanted(listByState, { is: [keptStates[state]], ...page }, (code) => shownStateOf(code, now) === state);
    },

    /** Lists codes in the state `claimed` since before this time, in order of their ids. */
    listClaimedCodes: ({
      before,
      after: id,
      limit,
    }: {
      before: Date;
      after: string;
      limit: number;
    }): Promise<TopUpCode[]> =>
      listWanted(
        listByState,
        { is: ['claimed'], after: { id }, limit },
        ({ redeemed }) => redeemed !== undefined && redeemed.at < before,
      ),
  };
}

export type TopUpCodeStore = ReturnType<typeof createTopUpCodeStore>;
