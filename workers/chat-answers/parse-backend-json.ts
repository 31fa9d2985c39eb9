import { exceededJsonBound, jsonDepthMax } from '../../shared/json-bounds.ts';
import { BackendError } from '../exchange/backend-error.ts';

/** An answer of four choices has this many with the log probabilities of 4,096 tokens each, and of four others beside each. */
const partsMax = 1_000_000;

/** JSON that a backend wrote; `unreadable` for anything else, and beyond the bounds of JSON. `what` names it in the error. */
export function parseBackendJson(text: string, what: string): unknown {
  const exceeded = mayExceed(text) ? exceededJsonBound(Buffer.from(text), { partsMax }) : undefined;
  if (exceeded !== undefined) throw new BackendError('unreadable', `${what} ${exceeded}`);
  try {
    return JSON.parse(text);
  } catch {
    // The parser's own error quotes the text, which is in no log.
    throw new BackendError('unreadable', `${what} is not JSON`);
  }
}

/** Of a chunk or a short answer this says no, at a tenth of what looking at each of its bytes takes. */
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
