/** Nesting levels of objects and arrays. */
export const jsonDepthMax = 128;
/** Objects, arrays and object members together. */
export const jsonPartsMax = 25_000;
/** Values in lists: more than any request of embeddings has. */
const jsonValuesMax = 2_000_000;

const [quote, backslash, colon, comma] = [0x22, 0x5c, 0x3a, 0x2c];
const [openBrace, openBracket, closeBrace, closeBracket] = [0x7b, 0x5b, 0x7d, 0x5d];

/** The bytes that have a meaning outside of strings. Most bytes have none, and one lookup shows that. */
const isStructural = new Uint8Array(256);
for (const byte of [quote, colon, comma, openBrace, openBracket, closeBrace, closeBracket]) isStructural[byte] = 1;

type Bounds = { depthMax?: number; partsMax?: number; commasMax?: number };

/**
 * Returns the bound that this JSON exceeds, as the end of a sentence, or undefined (contract.md#l2-json-before-parsing). Call it before the
 * text is parsed: 4 MiB of nested arrays take a second to parse and check, and block the process for that time
 * (decisions.md#json-is-bounded-before-it-is-parsed). It makes one pass over the bytes; for bytes that are not JSON the result is an
 * estimate.
 */
export function exceededJsonBound(bytes: Uint8Array, bounds: Bounds = {}): string | undefined {
  const { depthMax = jsonDepthMax, partsMax = jsonPartsMax, commasMax = jsonValuesMax } = bounds;
  let depth = 0;
  let parts = 0;
  let commas = 0;
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index] as number; // the index is within the length
    if (isStructural[byte] === 0) continue;
    if (byte === quote) {
      index = endOfString(bytes, index + 1);
    } else if (byte === comma) {
      if (++commas > commasMax) return `has more than ${commasMax} values`;
    } else if (byte === colon) {
      if (++parts > partsMax) return tooManyParts(partsMax);
    } else if (byte === openBrace || byte === openBracket) {
      if (++depth > depthMax) return `is nested deeper than ${depthMax} levels`;
      if (++parts > partsMax) return tooManyParts(partsMax);
    } else {
      depth--;
    }
  }
  return undefined;
}

/** A native search costs as much as checking this many bytes in JavaScript, and is much faster for longer strings. */
const scannedBytes = 64;

/** Returns where the string ends whose first byte is at `start`: its closing quote, or the end of the bytes. */
function endOfString(bytes: Uint8Array, start: number): number {
  let index = start;
  for (;;) {
    const until = Math.min(index + scannedBytes, bytes.length);
    for (; index < until; index++) {
      const byte = bytes[index];
      if (byte === quote) return index;
      if (byte === backslash) index++;
    }
    if (index >= bytes.length) return bytes.length;
    const found = bytes.indexOf(quote, index);
    if (found < 0) return bytes.length;
    let escapes = found;
    while (escapes > index && bytes[escapes - 1] === backslash) escapes--;
    if ((found - escapes) % 2 === 0) return found;
    index = found + 1;
  }
}

function tooManyParts(partsMax: number): string {
  return `has more than ${partsMax} objects, arrays and members together`;
}
