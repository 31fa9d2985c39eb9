/** V8 copies a slice shorter than this; a longer slice keeps the original string in memory. */
const sharedLengthMin = 13;

/** Copies a part of a large text, so that the large text is not kept in memory with it. A lone surrogate becomes U+FFFD. */
export function ownText(text: string): string {
  return text.length < sharedLengthMin ? text : Buffer.from(text).toString();
}
