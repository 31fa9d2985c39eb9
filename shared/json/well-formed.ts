import { validationError } from '../errors.ts';
import type { SentJson } from './exact-json.ts';

/** The escape of a surrogate, alone or as a pair. */
const surrogates = /\\u[dD](?:[89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|[89a-fA-F][\da-fA-F]{2})/g;
const pairLength = 12;
const replacement = '\\ufffd';
/** Far more than texts that were cut in a character have. Replacing millions of them would block the process for half a second. */
const halvesMax = 10_000;

/**
 * Returns the same JSON with U+FFFD for each half of a surrogate pair without its other half, in values and in names: model servers refuse
 * such text, or fail on it. UTF-8 has no such halves, so they can only be escapes, and a body without any costs one search. Fails with
 * `VALIDATION_ERROR` if there are more than 10,000.
 */
export function wellFormedJson(sent: SentJson): SentJson {
  const text = withWholeCharacters(sent.text);
  if (text === sent.text) return sent;
  // The value may be a part of the text. Its own text has halves as escapes, too.
  return { text, value: JSON.parse(withWholeCharacters(JSON.stringify(sent.value))) };
}

function withWholeCharacters(json: string): string {
  const pieces: string[] = [];
  let copied = 0;
  surrogates.lastIndex = 0;
  for (let found = surrogates.exec(json); found !== null; found = surrogates.exec(json)) {
    const { index, 0: written } = found;
    if (isEscaped(json, index)) {
      // The backslash is itself escaped, and the second half of the pair may be an escape of its own.
      surrogates.lastIndex = index + 1;
    } else if (written.length < pairLength) {
      if (pieces.length >= 2 * halvesMax) {
        throw validationError([{ path: 'body', message: `has more than ${halvesMax} halves of characters` }]);
      }
      pieces.push(json.slice(copied, index), replacement);
      copied = index + written.length;
    }
  }
  return copied === 0 ? json : pieces.join('') + json.slice(copied);
}

/** Whether an odd number of backslashes stands before this place. */
function isEscaped(json: string, index: number): boolean {
  let first = index;
  while (json.charCodeAt(first - 1) === 0x5c) first--;
  return (index - first) % 2 === 1;
}
