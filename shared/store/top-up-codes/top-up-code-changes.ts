import { ApiError } from '../../errors.ts';
import { isOver, type TopUpCode } from './top-up-code.ts';
import type { DecideCode } from './top-up-code-store.ts';

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
export function claimCode({ account, at, from }: Claim): DecideCode<TopUpCode> {
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
export function markApplied(at: Date): DecideCode<TopUpCode> {
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
}): DecideCode<{ code: TopUpCode; isNew: boolean }> {
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
