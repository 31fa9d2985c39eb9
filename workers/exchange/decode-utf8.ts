/** The text of these bytes, up to the first that are not UTF-8: `failure` says of those why they cannot be read. */
export type Decoded = { text: string; failure?: unknown };

const characterBytesMax = 4;

/**
 * Reads text that comes in pieces, which may be split inside a character. What stands before bytes that are not UTF-8 is given
 * out, however the pieces were split. Not to be called again after a failure. A byte order mark stays.
 */
export function createUtf8Decoder(): (piece: Uint8Array) => Decoded {
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

/** As many as a character that has begun can have. */
function lastBytes(before: Uint8Array, piece: Uint8Array): Uint8Array {
  const length = characterBytesMax - 1;
  return piece.length >= length ? piece.slice(-length) : Buffer.concat([before, piece]).subarray(-length);
}

/** The beginning of a character at the end of bytes that are UTF-8 so far. */
function unfinished(bytes: Uint8Array): Uint8Array {
  const first = bytes.findLastIndex((byte) => byte >= 0xc0);
  const lead = bytes[first] ?? 0;
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  return first >= 0 && bytes.length - first < length ? bytes.subarray(first) : new Uint8Array();
}

/** Byte by byte, because a decoder that fails gives nothing of what it was called with. */
function textBefore(bytes: Uint8Array): string {
  const decoder = strictDecoder();
  let text = '';
  try {
    for (const byte of bytes) text += decoder.decode(Uint8Array.of(byte), { stream: true });
  } catch {
    // This is the byte.
  }
  return text;
}
