/** The text of these bytes, up to the first that are not UTF-8. `failure`: the error of those. */
export type DecodedText = { text: string; failure?: unknown };

const characterBytesMax = 4;

/**
 * Decodes text that comes in pieces, which may be split inside a character. Text before bytes that are not UTF-8 is returned, for any
 * split. Do not call it again after a failure. A byte order mark is kept.
 */
export function createUtf8Decoder(): (piece: Uint8Array) => DecodedText {
  const decoder = strictDecoder();
  let latest: Uint8Array = new Uint8Array();
  return function decode(piece) {
    try {
      const text = decoder.decode(piece, { stream: true });
      latest = lastBytes(latest, piece);
      return { text };
    } catch (failure) {
      return { text: textBefore(Buffer.concat([unfinished(latest), piece])), failure };
    }
  };
}

function strictDecoder() {
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
}

/** The last bytes, as many as an unfinished character can have. */
function lastBytes(before: Uint8Array, piece: Uint8Array): Uint8Array {
  const length = characterBytesMax - 1;
  return piece.length >= length ? piece.slice(-length) : Buffer.concat([before, piece]).subarray(-length);
}

/** The unfinished character at the end of valid bytes. */
function unfinished(bytes: Uint8Array): Uint8Array {
  const first = bytes.findLastIndex((byte) => byte >= 0xc0);
  const lead = bytes[first] ?? 0;
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  return first >= 0 && bytes.length - first < length ? bytes.subarray(first) : new Uint8Array();
}

/** Byte by byte, because a failing decoder returns nothing of its input. */
function textBefore(bytes: Uint8Array): string {
  const decoder = strictDecoder();
  let text = '';
  try {
    for (const byte of bytes) text += decoder.decode(Uint8Array.of(byte), { stream: true });
  } catch {
    // This is the invalid byte.
  }
  return text;
}
