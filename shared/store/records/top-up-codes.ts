import { z } from 'zod';
import { ApiError } from '../../errors.ts';
import { storedDate as date } from '../../json/stored-values.ts';
import { type Collection, type Decide, type OpenDocuments, type Query, valueTaken } from '../documents.ts';
import { listWanted } from '../lists.ts';
import { type AuditRecord, auditIdFor } from './audit-records.ts';

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

/** What is kept beside a code in its document. `outbox`: audit records that are not copied yet. */
const documentSchema = topUpCodeSchema.extend({ outbox: z.array(z.looseObject({ id: z.string() })).default([]) });

export const codesOf = {
  name: 'top_up_codes',
  schema: documentSchema,
  id: 'id',
  indexes: {
    byHash: { fields: ['hash'], isUnique: true },
    byState: { fields: ['state'] },
    withOutbox: { list: 'outbox', field: 'id' },
  },
} as const satisfies Collection;

export const topUpCodeCollections = [codesOf];

/** The states that are kept of codes in a state that is shown. */
const keptStates = {
  unused: ['unused'],
  expired: ['unused'],
  redeemed: ['claimed', 'redeemed'],
  revoked: ['revoked'],
} as const satisfies Record<ShownCodeState, readonly TopUpCode['state'][]>;

/**
 * Top-up codes. They are never removed, so each is also the record of who created it, and who redeemed or revoked it. The audit records of
 * what operators do are in outboxes of the same documents (contract.md#r10-audit-outbox).
 */
export function createTopUpCodeStore(open: OpenDocuments) {
  const codes = open(codesOf);
  const listByState = async (query: Query) => (await codes.list('byState', query)).map(toCode);

  async function insert(documents: readonly CodeDocument[]): Promise<void> {
    const refused = await codes.insert(documents);
    if (refused.length > 0) throw valueTaken(new Error(`of the new codes, ${refused.length} exist`));
  }

  return {
    /**
     * Inserts new codes of one creation. The first has the audit record, and is inserted before the others, so that no code is without it.
     * If it fails, some of them may have been inserted: no one knows these codes.
     */
    async insertCodes([first, ...others]: readonly TopUpCode[]): Promise<void> {
      if (first === undefined) return;
      await insert([{ ...first, outbox: [creationRecord(first, 1 + others.length)] }]);
      if (others.length > 0) await insert(others.map((code) => ({ ...code, outbox: [] })));
    },

    async findCode(hash: string): Promise<TopUpCode | undefined> {
      const [found] = await codes.list('byHash', { is: [hash], limit: 1 });
      return found && toCode(found);
    },

    /** Changes a code as `decide` returns. `next` is written only if its state has not changed; otherwise `decide` is called again. */
    changeCode: <Result>(id: string, decide: Decide<TopUpCode, Result>): Promise<Result> =>
      codes.change(id, (kept) => {
        const { result, next } = decide(kept && toCode(kept));
        if (kept === undefined || next === undefined) return { result };
        const record = kept.state === 'revoked' ? undefined : revocationRecord(next);
        return { result, next: { ...next, outbox: record === undefined ? kept.outbox : [...kept.outbox, record] } };
      }),

    /** Lists codes, newest first. */
    async listCodes({ state, now, after: id, limit }: CodePage): Promise<TopUpCode[]> {
      const page = { after: id === undefined ? undefined : { id }, order: 'desc', limit } as const;
      if (state === undefined) return (await codes.list('id', page)).map(toCode);
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

type CodeDocument = z.infer<typeof documentSchema>;

function toCode({ outbox: _, ...code }: CodeDocument): TopUpCode {
  return code;
}

/** `note` is null if there is none. */
function shownInTrail({ id, tokens, note }: TopUpCode) {
  return { id, tokens, note: note ?? null };
}

const ofNoAccount = { kind: 'code', account: null, reason: null } as const;

/** The record of a creation has the id of its first code. */
function creationRecord(first: TopUpCode, count: number): AuditRecord {
  const { createdAt: at, createdBy: actor, createdFrom: address } = first;
  const codesCreated = { ...shownInTrail(first), count };
  return { id: auditIdFor(`created ${first.id}`, at), at, actor, address, ...ofNoAccount, change: { codesCreated } };
}

function revocationRecord(code: TopUpCode): AuditRecord | undefined {
  if (code.state !== 'revoked' || code.revoked === undefined) return undefined;
  const { by: actor, at, from: address } = code.revoked;
  const change = { codeRevoked: shownInTrail(code) };
  return { id: auditIdFor(`revoked ${code.id}`, at), at, actor, address, ...ofNoAccount, change };
}
