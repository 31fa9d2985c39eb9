/** Numbers from 0 up to 1, the same for the same seed (Mulberry32), so that random runs can be repeated. */
export type Random = {
  (): number;
  /** From `from` up to `to`. */
  between(from: number, to: number): number;
  oneOf<T>(choices: readonly T[]): T;
};

export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  function random(): number {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
  return Object.assign(random, {
    between: (from: number, to: number) => from + random() * (to - from),
    oneOf<T>(choices: readonly T[]): T {
      const chosen = choices[Math.floor(random() * choices.length)];
      if (chosen === undefined) throw new Error('there is nothing to choose from');
      return chosen;
    },
  });
}
