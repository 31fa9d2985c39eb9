/** V8 copies a shorter part of a string; a longer one keeps the whole string in memory. */
const sharedLengthMin = 13;

/**
 * The same text in memory of its own, for a part of a large text that is kept longer than the rest. A lone surrogate becomes U+FFFD.
 */
export function ownText(text: string): string {
  return text.length < sharedLengthMin ? text : Buffer.from(text).toString();
}
