import { type ApiError, validationError } from '../../errors.ts';
import { exceededJsonBound, jsonDepthMax } from '../../json/json-bounds.ts';
import type { SizeBudget } from '../definition/answer-format.ts';
import { BackendError } from './backend-error.ts';

/** Enough for four choices with the log probabilities of 4,096 tokens each, with four alternatives for each token. */
const partsMax = 1_000_000;

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Returns the text of these bytes from a backend. Fails with `unreadable` if it is not UTF-8. */
export function decodeBackendText(parts: readonly Buffer[]): string {
  try {
    return utf8.decode(parts.length === 1 ? parts[0] : Buffer.concat(parts));
  } catch (error) {
    throw new BackendError('unreadable', 'the answer is not UTF-8', { cause: error });
  }
}

/** Parses JSON from a backend. Fails with `unreadable` if it is not JSON or exceeds the bounds. `what` names it in the error. */
export function parseBackendJson(text: string, what: string): unknown {
  const exceeded = mayExceed(text)
    ? exceededJsonBound(Buffer.from(text), { partsMax, commasMax: Number.POSITIVE_INFINITY })
    : undefined;
  if (exceeded !== undefined) throw new BackendError('unreadable', `${what} ${exceeded}`);
  try {
    return JSON.parse(text);
  } catch {
    // The parser's own error quotes the text, which must not be logged.
    throw new BackendError('unreadable', `${what} is not JSON`);
  }
}

/** False for a chunk or a short answer, at a tenth of the cost of checking each byte. */
function mayExceed(text: string): boolean {
  if (text.length > partsMax) return true;
  let opened = 0;
  for (const opening of ['{', '[']) {
    for (let at = text.indexOf(opening); at >= 0; at = text.indexOf(opening, at + 1)) {
      if (++opened > jsonDepthMax) return true;
    }
  }
  return false;
}

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
