import { type ApiError, validationError } from '../../errors.ts';
import type { SizeBudget } from '../definition/answer-format.ts';
import { BackendError } from './backend-error.ts';

/** The default limits of one answer, in bytes. Vectors are larger than text (contract.md#ho2-bytes-of-answers). */
export const answerBytesMax = { text: 4_194_304, vectors: 16_777_216 };

export function createSizeBudget(bytesMax: number): SizeBudget {
  let left = bytesMax;
  return {
    spend(bytes) {
      left -= bytes;
      if (left < 0) throw new BackendError('too_large', `the answer is larger than ${bytesMax} bytes`);
    },
  };
}

/** The answer has more bytes than `answer_bytes_max` of its model (contract.md#ho2-bytes-of-answers). */
export function answerTooLarge(): ApiError {
  const message =
    'The answer is larger than this model may answer (answer_bytes_max). Ask for less at once: fewer inputs, choices, tokens or log probabilities, or a stream.';
  return validationError([{ path: 'request', message }]);
}
