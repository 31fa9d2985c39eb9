import { z } from 'zod';
import { storedDate as date } from '../../stored-date.ts';

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
