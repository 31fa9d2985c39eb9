import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { type ClaimOwner, derivedKey } from './derived-key.ts';

/** A complete answer: its text, or its bytes in parts, because large ones are not made text. */
type AnswerToKeep = { body: string | readonly Buffer[]; estimated: boolean };

/** A complete answer, as its client got it. `estimated`: its tokens were counted here. */
export type KeptAnswer = { body: Buffer; estimated: boolean };

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
