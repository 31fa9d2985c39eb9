import { z } from 'zod';
import { ApiError } from '../../errors.ts';
import { storedDate as date } from '../../stored-values.ts';
import type { Decide } from '../documents/documents.ts';

export const topUpCodeSchema = z.object({
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
export function isOver(expiresAt: Date | undefined, now: Date): boolean {
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
