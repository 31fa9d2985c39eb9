/**
 * A request with an idempotency key, as its client sent it, and the marks of its body, one for each pepper in use. A body is the same if
 * any of them is the stored one; a new claim stores the first. `isStream`: no answer is kept.
 */
export type Claim = {
  idempotencyKey: string;
  bodyMarks: readonly [string, ...string[]];
  isStream: boolean;
};

/** The claim of an admitted request. `answerBytesMax` is the longest answer that is kept for it, in bytes; 0 if none is. */
export type HeldClaim = Claim & { answerBytesMax: number };

/** Whether an answer to this request is kept if it is not too long. Then the request continues without its client. */
export function mayKeepAnswer(claim: Pick<HeldClaim, 'answerBytesMax'> | undefined): boolean {
  return claim !== undefined && claim.answerBytesMax > 0;
}

/** Whether an answer of this many bytes is kept: ingress and worker decide alike. */
export function keepsAnswer(bytes: number, { answerBytesMax }: Pick<HeldClaim, 'answerBytesMax'>): boolean {
  return answerBytesMax > 0 && bytes <= answerBytesMax;
}

/** Says that no repeat will get this answer. */
export const notKeptHeader = { 'idempotency-kept': 'false' } as const;

/** How a claim ends with its request: a repeat gets this answer, it is refused because the answer is lost, or it runs. */
export type ClaimEnd = { end: 'kept'; answer: Buffer } | { end: 'lost' } | { end: 'free' };

/** How long a repeat gets the answer, from the end of the request on. */
export const answerKeptMs = 600_000;
/** Repeats of a claim that count against no limit (contract.md#h1-idempotency-keys). */
export const repeatsFree = 10;

/** What an account may keep and reserve for answers, in bytes (contract.md#ho1-budgets-of-kept-answers). */
export const keptBytesMax = 16_777_216;
/** What a claim takes in Redis without an answer, in bytes (`workers/memory/item-bytes.ts`): it counts for as much at least. */
export const claimBytes = 1_024;

/** Returns the bytes that admission reserves for the answer of this claim. */
export function bytesToReserve(account: string, { isStream }: Pick<Claim, 'isStream'>): number {
  if (isStream) return claimBytes;
  return account.startsWith('device:') ? 65_536 : 1_048_576;
}
