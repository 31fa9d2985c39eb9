import { exceededJsonBound } from '../../shared/json-bounds.ts';
import { BackendError } from './backend-error.ts';

/** An answer of four choices has this many with the log probabilities of 4,096 tokens each, and of four others beside each. */
const partsMax = 1_000_000;

/** JSON that a backend wrote; `unreadable` for anything else, and beyond the bounds of JSON. `what` names it in the error. */
export function parseBackendJson(text: string, what: string): unknown {
  const exceeded = exceededJsonBound(Buffer.from(text), { partsMax });
  if (exceeded !== undefined) throw new BackendError('unreadable', `${what} ${exceeded}`);
  try {
    return JSON.parse(text);
  } catch {
    // The parser's own error quotes the text, which is in no log.
    throw new BackendError('unreadable', `${what} is not JSON`);
  }
}
