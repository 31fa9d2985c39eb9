/** V8 copies a slice shorter than this; a longer slice keeps the original string in memory. */
const sharedLengthMin = 13;

/** Copies a part of a large text, so that the large text is not kept in memory with it. A lone surrogate becomes U+FFFD. */
export function ownText(text: string): string {
  return text.length < sharedLengthMin ? text : Buffer.from(text).toString();
}

/** Cuts a text that is longer than `lengthMax`. An ellipsis shows that something is missing. */
export function shorten(text: string, lengthMax: number): string {
  return text.length > lengthMax ? `${text.slice(0, lengthMax)}…` : text;
}

/**
 * Matches a full key, including its checksum; its masked form remains. It may have any text around it: in JSON a line break before a key is
 * `\n`, in a URL a space is `%20`, and neither is a word boundary.
 */
const fullKey = /svc_([0-9A-Za-z]{6})[0-9A-Za-z]{32,}/g;

/**
 * Makes a name from a client safe to repeat in an error: without a complete key, and cut if it is longer than `lengthMax`. An unknown name
 * could be the complete body.
 */
export function shownName(name: string, lengthMax: number): string {
  return shorten(maskKeys(name.slice(0, 2 * lengthMax)), lengthMax);
}

/** Masks full keys: the last safeguard if a key gets into a message or an error. */
export function maskKeys(line: string): string {
  return line.replace(fullKey, 'svc_$1****');
}
