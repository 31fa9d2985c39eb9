import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';

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

/** Whom a kept answer belongs to. */
export type ClaimOwner = { account: string; idempotencyKey: string };

const keyBytes = 32;

/**
 * Derives a key from a pepper for one use (HKDF with SHA-256, RFC 5869). No account and no idempotency key contains a NUL, so no two owners
 * have the same text. The text is hashed, because it can be longer than the 1,024 bytes that Node accepts.
 */
export function derivedKey(pepper: string, use: 'answer' | 'body' | 'pepper', owner?: ClaimOwner): Buffer {
  const { account, idempotencyKey } = owner ?? { account: '', idempotencyKey: '' };
  const info = createHash('sha256').update(['idempotency', use, account, idempotencyKey].join('\0')).digest();
  return Buffer.from(hkdfSync('sha256', pepper, '', info, keyBytes));
}

/** A complete answer: its text, or its bytes in parts, because large ones are not made text. */
type AnswerToKeep = { body: string | readonly Buffer[]; estimated: boolean };

/** A complete answer, as its client got it. `estimated`: its tokens were counted here. */
type KeptAnswer = { body: Buffer; estimated: boolean };

const cipher = 'aes-256-gcm';
const [nameBytes, nonceBytes, tagBytes] = [8, 12, 16];
const [countedHere, countedByBackend] = [Buffer.from('e'), Buffer.from('r')];

/** `peppers`: those in use; the first seals. A sealed answer is the name of its pepper, a nonce, the tag and the answer. */
export function createKeptAnswers(peppers: readonly string[]) {
  const named = peppers.map((pepper) => ({ pepper, name: derivedKey(pepper, 'pepper').subarray(0, nameBytes) }));
  const [first] = named;
  if (first === undefined) throw new Error('no pepper to keep answers with');

  return {
    seal(owner: ClaimOwner, { body, estimated }: AnswerToKeep): Buffer {
      const nonce = randomBytes(nonceBytes);
      const sealing = createCipheriv(cipher, derivedKey(first.pepper, 'answer', owner), nonce);
      const parts = typeof body === 'string' ? [Buffer.from(body)] : body;
      const sealed = [estimated ? countedHere : countedByBackend, ...parts].map((part) => sealing.update(part));
      sealed.push(sealing.final());
      return Buffer.concat([first.name, nonce, sealing.getAuthTag(), ...sealed]);
    },
    /** Undefined if it was sealed with a pepper that is not in use here, for another owner, or was changed. */
    open(owner: ClaimOwner, sealed: Buffer): KeptAnswer | undefined {
      const name = sealed.subarray(0, nameBytes);
      const found = named.find((each) => each.name.equals(name));
      const rest = sealed.subarray(nameBytes);
      if (found === undefined || rest.length < nonceBytes + tagBytes) return undefined;
      const opening = createDecipheriv(
        cipher,
        derivedKey(found.pepper, 'answer', owner),
        rest.subarray(0, nonceBytes),
        {
          authTagLength: tagBytes,
        },
      );
      opening.setAuthTag(rest.subarray(nonceBytes, nonceBytes + tagBytes));
      try {
        const answer = opening.update(rest.subarray(nonceBytes + tagBytes));
        opening.final(); // has no bytes in this mode, and fails if any was changed
        return { body: answer.subarray(1), estimated: answer[0] === countedHere[0] };
      } catch {
        return undefined;
      }
    },
  };
}

/** Encrypts the answers that repeats get: who reads Redis alone cannot read them (contract.md#h2-kept-answers). */
export type KeptAnswers = ReturnType<typeof createKeptAnswers>;
