const [quote, backslash, openBrace, openBracket] = [0x22, 0x5c, 0x7b, 0x5b];
const [closeBrace, closeBracket] = [0x7d, 0x5d];

/**
 * Whether this JSON nests deeper than so many levels; of what is no JSON, an estimate. Reading one that is nested a million levels
 * deep takes half a second, in which its process does nothing else, and this a few milliseconds.
 */
export function nestsDeeper(bytes: Uint8Array, levels: number): boolean {
  let depth = 0;
  let isText = false;
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index];
    if (isText) {
      if (byte === backslash) index++;
      else if (byte === quote) isText = false;
    } else if (byte === quote) {
      isText = true;
    } else if (byte === openBrace || byte === openBracket) {
      if (++depth > levels) return true;
    } else if (byte === closeBrace || byte === closeBracket) {
      depth--;
    }
  }
  return false;
}

/** Deeper than any request, and far from where reading or writing it would be a burden. */
export const jsonLevelsMax = 1_000;
