import { BackendError } from './backend-error.ts';

/** The default limits of one answer, in bytes. Vectors are larger than text (contract.md#ho2-bytes-of-answers). */
export const answerBytesMax = { text: 4_194_304, vectors: 16_777_216 };

/** The limit of all parts of an answer together: bytes, or characters of what is assembled. Fails with `too_large` beyond it. */
export type SizeBudget = { spend(bytes: number): void };

export function createSizeBudget(bytesMax: number): SizeBudget {
  let left = bytesMax;
  return {
    spend(bytes) {
      left -= bytes;
      if (left < 0) throw new BackendError('too_large', `the answer is larger than ${bytesMax} bytes`);
    },
  };
}
