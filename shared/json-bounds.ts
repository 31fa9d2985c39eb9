/** Levels of objects and arrays within each other. */
export const jsonDepthMax = 128;
/** Objects, arrays and object members together. */
export const jsonPartsMax = 25_000;

const [quote, backslash, colon, comma] = [0x22, 0x5c, 0x3a, 0x2c];
const [openBrace, openBracket, closeBrace, closeBracket] = [0x7b, 0x5b, 0x7d, 0x5d];

type Bounds = { depthMax?: number; partsMax?: number; commasMax?: number };

/**
 * Which bound this JSON exceeds, as the end of a sentence, or undefined. Call it before the text is parsed: 4 MiB of nothing but
 * arrays takes a second to parse and to check, in which the process does nothing else. One pass over the bytes; for bytes that are
 * not JSON the result is an estimate. Numbers and strings in arrays are not bounded by default, because an embedding has many.
 */
export function exceededJsonBound(bytes: Uint8Array, bounds: Bounds = {}): string | undefined {
  const { depthMax = jsonDepthMax, partsMax = jsonPartsMax, commasMax = Number.POSITIVE_INFINITY } = bounds;
  let depth = 0;
  let parts = 0;
  let commas = 0;
  let inString = false;
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index];
    if (inString) {
      if (byte === backslash) index++;
      else if (byte === quote) inString = false;
    } else if (byte === quote) {
      inString = true;
    } else if (byte === comma) {
      if (++commas > commasMax) return `has more than ${commasMax} values`;
    } else if (byte === colon) {
      if (++parts > partsMax) return tooManyParts(partsMax);
    } else if (byte === openBrace || byte === openBracket) {
      if (++depth > depthMax) return `is nested deeper than ${depthMax} levels`;
      if (++parts > partsMax) return tooManyParts(partsMax);
    } else if (byte === closeBrace || byte === closeBracket) {
      depth--;
    }
  }
  return undefined;
}

function tooManyParts(partsMax: number): string {
  return `has more than ${partsMax} objects, arrays and members together`;
}
