const charactersPerTokenMax = 8;
const sampleCharactersMax = 1_000_000;

/** What the model has written, for counting. */
export function createSample() {
  const written: string[] = [];
  let sampled = 0;
  let characters = 0;
  let pieces = 0;
  return {
    add(text: string): void {
      if (text === '') return;
      characters += text.length;
      pieces += 1;
      if (sampled < sampleCharactersMax) written.push(text);
      sampled += text.length;
    },
    tokens: () => Math.max(pieces, Math.floor(characters / charactersPerTokenMax)),
    text: () => ({ sample: written.join(''), characters }),
  };
}
