/** Readers of a script's answer: words with a space between them. Each throws on anything else. */

export function wordsOf(answer: unknown): string[] {
  if (typeof answer !== 'string') throw new Error('a script answered something else than words');
  return answer.split(' ');
}

export function wordOf(word: string | undefined): string {
  if (word === undefined) throw new Error('a word is missing in the answer of a script');
  return word;
}

export function intOf(word: string | undefined): number {
  const number = Number(wordOf(word) || Number.NaN); // nothing at all would be 0
  if (!Number.isSafeInteger(number)) throw new Error(`a script answered "${word}" where an integer must be`);
  return number;
}
