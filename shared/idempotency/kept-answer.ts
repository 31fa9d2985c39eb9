import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { type ClaimOwner, derivedKey } from './derived-key.ts';

/** A complete answer, as its client got it. `estimated`: its tokens were counted here. */
export type KeptAnswer = { body: string; estimated: boolean };

/** Encrypts the answers that repeats get: who reads Redis alone cannot read them (contract.md#h2-kept-answers). */
export interface KeptAnswers {
  seal(owner: ClaimOwner, answer: KeptAnswer): Buffer;
  /** Undefined if it was sealed with a pepper that is not in use here, for another owner, or was changed. */
  open(owner: ClaimOwner, sealed: Buffer): KeptAnswer | undefined;
}

const cipher = 'aes-256-gcm';
const [nameBytes, nonceBytes, tagBytes] = [8, 12, 16];
const [countedHere, countedByBackend] = ['e', 'r'];

/** `peppers`: those in use; the first seals. A sealed answer is the name of its pepper, a nonce, the tag and the text. */
export function createKeptAnswers(peppers: readonly string[]): KeptAnswers {
  const named = peppers.map((pepper) => ({ pepper, name: derivedKey(pepper, 'pepper').subarray(0, nameBytes) }));
  const [first] = named;
  if (first === undefined) throw new Error('no pepper to keep answers with');

  return {
    seal(owner, { body, estimated }) {
      const nonce = randomBytes(nonceBytes);
      const sealing = createCipheriv(cipher, derivedKey(first.pepper, 'answer', owner), nonce);
      const text = [sealing.update((estimated ? countedHere : countedByBackend) + body, 'utf8'), sealing.final()];
      return Buffer.concat([first.name, nonce, sealing.getAuthTag(), ...text]);
    },
    open(owner, sealed) {
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
        const text = Buffer.concat([opening.update(rest.subarray(nonceBytes + tagBytes)), opening.final()]).toString();
        return { body: text.slice(1), estimated: text[0] === countedHere };
      } catch {
        return undefined;
      }
    },
  };
}
