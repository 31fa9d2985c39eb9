/** Compares by the bytes in UTF-8, as both stores order text; JavaScript would order it differently. */
export function compareBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}
