import { countTokens } from './count-tokens.ts';

/** The last part of a text is counted again with what follows it, because a token may continue there. */
const tailCharacters = 512;
const keptCharactersMax = 65_536;
/** The tokenizer counts this much exactly. */
const countedAtOnce = 16_384;

/** Counts the tokens of a growing text, only as far as necessary. */
export function createTokenMeter() {
  let counted = 0;
  let rest = '';
  /** Upper bound: no text has more tokens than bytes in UTF-8. */
  let most = 0;

  async function settle(characters: number): Promise<void> {
    // The tokenizer also has a boundary there.
    const space = rest.lastIndexOf(' ', characters);
    const end = space > 0 ? space : characters;
    counted += await countTokens(rest.slice(0, end));
    rest = rest.slice(end);
  }

  async function count(tokensMax: number): Promise<number> {
    while (rest.length > countedAtOnce) {
      await settle(countedAtOnce);
      if (counted > tokensMax) return counted;
    }
    if (rest.length > 2 * tailCharacters) await settle(rest.length - tailCharacters);
    most = counted + (await countTokens(rest));
    return most;
  }

  return {
    add(text: string): void {
      rest += text;
      most += Buffer.byteLength(text);
    },
    /** Whether the text has more than `tokensMax` tokens, by tokenizer. Returns at once while the text is too short for that. */
    isOver(tokensMax: number): false | Promise<boolean> {
      if (most <= tokensMax && rest.length <= keptCharactersMax) return false;
      return count(tokensMax).then((tokens) => tokens > tokensMax);
    },
  };
}

export type TokenMeter = ReturnType<typeof createTokenMeter>;
