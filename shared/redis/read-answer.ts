import type { Words } from './load-lua.ts';

/** Readers of a script's answer: words separated by spaces. Each throws on anything else. */

export function wordsOf(answer: unknown): string[] {
  if (typeof answer !== 'string') throw new Error('the answer of a script is not text');
  return answer.split(' ');
}

export function wordOf(word: string | undefined): string {
  if (word === undefined) throw new Error('a word is missing in the answer of a script');
  return word;
}

/** Returns a reader of integers by their names (load-lua.ts), from the first word on. */
export function createReadNumbers<Names extends string>(names: Names) {
  const all = names.split(' ');
  return (words: readonly string[]): Record<Words<Names>, number> => {
    const numbers: Record<string, number> = {};
    for (let index = 0; index < all.length; index++) numbers[all[index] ?? ''] = intOf(words[index]);
    return numbers as Record<Words<Names>, number>; // it has all of these names
  };
}

export function intOf(word: string | undefined): number {
  const number = Number(wordOf(word) || Number.NaN); // Number('') would be 0
  if (!Number.isSafeInteger(number)) throw new Error(`a script answered "${word}" instead of an integer`);
  return number;
}
