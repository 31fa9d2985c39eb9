/** The longest piece, in bytes. It is a prime, so that the cuts shift against any repetition in the text. */
const pieceBytesMax = 331;

/** The shortest piece, in bytes: if every multi-byte character were cut, there would be only tiny pieces. */
const pieceBytesMin = 61;

/**
 * Cuts bytes where a careless reader breaks: inside multi-byte characters, and so that events, their `data:` and the blank lines between
 * them are on both sides of a cut. There are at least two pieces, of two bytes or more. Joined, the pieces are the bytes.
 */
export function oddPieces(bytes: Buffer): Buffer[] {
  const result: Buffer[] = [];
  const longest = Math.min(pieceBytesMax, Math.ceil(bytes.length / 2));
  let start = 0;
  for (let at = 1; at < bytes.length; at += 1) {
    const inCharacter = ((bytes[at] ?? 0) & 0xc0) === 0x80;
    const cut = at - start >= longest || (inCharacter && at - start >= pieceBytesMin);
    if (!cut) continue;
    result.push(bytes.subarray(start, at));
    start = at;
  }
  if (start < bytes.length) result.push(bytes.subarray(start));
  return result;
}

/** The bytes of a JSON reply or event with one byte that is never valid UTF-8 after each of the openings, such as `"content":"`. */
export function withInvalidUtf8(json: string, openings: readonly string[]): Buffer {
  // JSON never contains an unescaped U+0001, so each one found afterwards was inserted here.
  const marked = openings.reduce((text, opening) => text.replaceAll(opening, `${opening}\u0001`), json);
  const bytes = Buffer.from(marked);
  for (let at = bytes.indexOf(1); at !== -1; at = bytes.indexOf(1, at + 1)) bytes[at] = 0xff;
  return bytes;
}
