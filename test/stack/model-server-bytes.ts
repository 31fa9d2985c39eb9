/** The longest piece, in bytes; a prime, so that pieces drift across whatever repeats in the text. */
const pieceBytesMax = 331;

/** Text in which every character is cut would be nothing but tiny pieces. */
const pieceBytesMin = 61;

/**
 * Cuts bytes where a careless reader breaks: inside multi-byte characters, and so that events, their `data:` and the
 * blank lines between them lie on both sides of a cut. There are at least two pieces, of two bytes or more; joined, the
 * pieces are the bytes.
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

/** The bytes of a JSON reply or event with one in each content that is never UTF-8. */
export function withInvalidUtf8(json: string): Buffer {
  // U+0001 never stands in JSON unescaped, so each one found afterwards is ours.
  const bytes = Buffer.from(json.replaceAll('"content":"', '"content":"\u0001'));
  for (let at = bytes.indexOf(1); at !== -1; at = bytes.indexOf(1, at + 1)) bytes[at] = 0xff;
  return bytes;
}
