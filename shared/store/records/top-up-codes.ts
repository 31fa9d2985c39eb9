import { z } from 'zod';
import { ApiError } from '../../errors.ts';
import { storedDate as date } from '../../json/stored-values.ts';
import { type Collection, type Decide, type OpenDocuments, type Query, valueTaken } from '../documents.ts';
import { listWanted } from '../lists.ts';

const topUpCodeSchema = z.object({
  id: z.string(),
  hash: z.string(),
  tokens: z.int().positive(),
  note: z.string().optional(),
  createdAt: date,
  createdBy: z.string(),
  createdFrom: z.string(),
  expiresAt: date.optional(),
  state: z.enum(['unused', 'claimed', 'redeemed', 'revoked']),
  redeemed: z.object({ account: z.string(), at: date, from: z.string() }).optional(),
  appliedAt: date.optional(),
  revoked: z.object({ by: z.string(), at: date, from: z.string() }).optional(),
});

/**
 * A code that adds tokens to the month of one account, once (contract.md#j5-overage-and-top-up-codes). The code itself is not kept: `hash`
 * is its SHA-256. `createdBy` and `revoked.by` are operators. `claimed`: it belongs to the account in `redeemed`, and its tokens may not be
 * in the allowance yet. `redeemed`: they are, since `appliedAt` or before. `createdFrom` and `from` are client addresses. `note` is the
 * operator's.
 */
export type TopUpCode = z.infer<typeof topUpCodeSchema>;

/** The states as operators see them. An unused code whose end has passed is `expired`. */
export const shownCodeStates = ['unused', 'redeemed', 'revoked', 'expired'] as const;
export type ShownCodeState = (typeof shownCodeStates)[number];

export function shownStateOf({ state, expiresAt }: TopUpCode, now: Date): ShownCodeState {
  if (state === 'claimed') return 'redeemed';
  return state === 'unused' && isOver(expiresAt, now) ? 'expired' : state;
}

/** A code can be redeemed before `expiresAt`. */
function isOver(expiresAt: Date | undefined, now: Date): boolean {
  return expiresAt !== undefined && expiresAt <= now;
}

/*
 * The states of a code (contract.md#j5-overage-and-top-up-codes). Every transition that is not listed leaves it unchanged, or is refused.
 *
 *   unused   claim    claimed by one account, unless its end has passed
 *   claimed  apply    redeemed
 *   unused   revoke   revoked
 */

type Claim = { account: string; at: Date; from: string };

/**
 * Gives a code to an account. The account that has it keeps it. Fails with `CONFLICT` if another account has it, and if it has expired or
 * was revoked.
 */
export function claimCode({ account, at, from }: Claim): Decide<TopUpCode, TopUpCode> {
  return (known) => {
    const code = requireKnown(known);
    if (code.redeemed?.account === account) return { result: code };
    if (code.redeemed !== undefined) throw conflict('Another account has redeemed this code.');
    if (code.state === 'revoked') throw conflict('This code was revoked.');
    if (isOver(code.expiresAt, at)) throw conflict('This code has expired.');
    const next: TopUpCode = { ...code, state: 'claimed', redeemed: { account, at, from } };
    return { result: next, next };
  };
}

/** Notes that the tokens of a claimed code are in the allowance of its account. */
export function markApplied(at: Date): Decide<TopUpCode, TopUpCode> {
  return (known) => {
    const code = requireKnown(known);
    if (code.state !== 'claimed') return { result: code };
    const next: TopUpCode = { ...code, state: 'redeemed', appliedAt: at };
    return { result: next, next };
  };
}

/**
 * Revokes an unused code, also one that has expired. `isNew`: it was not revoked before. Fails with `CONFLICT` if an account has redeemed
 * it.
 */
export function revokeCode(revoked: {
  by: string;
  at: Date;
  from: string;
}): Decide<TopUpCode, { code: TopUpCode; isNew: boolean }> {
  return (known) => {
    const code = requireKnown(known);
    if (code.state === 'revoked') return { result: { code, isNew: false } };
    if (code.state !== 'unused') throw conflict('An account has redeemed this code.');
    const next: TopUpCode = { ...code, state: 'revoked', revoked };
    return { result: { code: next, isNew: true }, next };
  };
}

/** The only error for a code that does not exist. */
export function noSuchCode(): ApiError {
  return new ApiError('NOT_FOUND', 'There is no such code.');
}

function requireKnown(code: TopUpCode | undefined): TopUpCode {
  if (code === undefined) throw noSuchCode();
  return code;
}

function conflict(message: string): ApiError {
  return new ApiError('CONFLICT', message);
}

/** Codes in the state `state` at the time `now`, all if it is omitted. `after` is the id of the code before the first. */
type CodePage = { state?: ShownCodeState | undefined; now: Date; after?: string | undefined; limit: number };

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
