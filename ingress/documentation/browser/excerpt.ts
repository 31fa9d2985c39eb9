/** A piece of a text; `isMatch` if it was searched for. */
export type Piece = { text: string; isMatch: boolean };

const before = 40;
const lengthMax = 150;

/** The part of a text around the first of these words, in pieces. The whole text if it is short, its beginning if no word is in it. */
export function excerptOf(text: string, words: readonly string[]): Piece[] {
  const pattern =
    words.length === 0 ? undefined : new RegExp(`(?<![\\p{L}\\p{N}])(${words.map(escaped).join('|')})`, 'giu');
  const first = pattern === undefined ? 0 : Math.max(text.search(pattern), 0);
  const from = first <= before ? 0 : text.indexOf(' ', first - before) + 1;
  const shown = text.slice(from, from + lengthMax);
  const part = `${from > 0 ? '… ' : ''}${shown}${from + lengthMax < text.length ? '…' : ''}`;
  if (pattern === undefined) return [{ text: part, isMatch: false }];
  // With a group in the pattern, every second piece is a match.
  return part
    .split(pattern)
    .map((piece, index) => ({ text: piece, isMatch: index % 2 === 1 }))
    .filter((piece) => piece.text !== '');
}

function escaped(word: string): string {
  return word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
