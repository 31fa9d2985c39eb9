/** Readers of a script's answer: words separated by spaces. Each throws on anything else. */

export function wordsOf(answer: unknown): string[] {
  if (typeof answer !== 'string') throw new Error('the answer of a script is not text');
  return answer.split(' ');
}

export function wordOf(word: string | undefined): string {
  if (word === undefined) throw new Error('a word is missing in the answer of a script');
  return word;
}

export function intOf(word: string | undefined): number {
  const number = Number(wordOf(word) || Number.NaN); // Number('') would be 0
  if (!Number.isSafeInteger(number)) throw new Error(`a script answered "${word}" instead of an integer`);
  return number;
}
