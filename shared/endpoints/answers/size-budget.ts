import { BackendError } from './backend-error.ts';

/** As large as a whole answer may be. */
export const charactersMax = 33_554_432;

/** The limit of all parts of an answer together, in characters. Fails with `unreadable` beyond it. */
export type SizeBudget = { spend(characters: number): void };

export function createSizeBudget(charactersMax: number): SizeBudget {
  let left = charactersMax;
  return {
    spend(characters) {
      left -= characters;
      if (left < 0) throw new BackendError('unreadable', `the answer is larger than ${charactersMax} characters`);
    },
  };
}
