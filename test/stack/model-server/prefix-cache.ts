import { hash } from 'node:crypto';

/** The tokens of a block, as in vLLM: only whole blocks are cached. */
export const blockTokens = 16;

/** One prompt that the model reads, and what it answers, as tokens. */
export interface TokenSequence {
  readonly prompt: readonly string[];
  /** One for each choice. */
  readonly answers: readonly (readonly string[])[];
}

export type PrefixCache = ReturnType<typeof createPrefixCache>;

/**
 * The prefix cache of an engine: the last used blocks of tokens, each named by everything before it. Of one sequence, the last blocks are
 * evicted first, because without its beginning none of a sequence is of use.
 */
export function createPrefixCache({ tokensMax }: { tokensMax: number }) {
  const blocksMax = Math.floor(tokensMax / blockTokens);
  /** In the order of their last use. */
  const blocks = new Set<string>();

  function use(names: readonly string[]): void {
    for (const name of names.toReversed()) {
      blocks.delete(name);
      blocks.add(name);
    }
  }

  return {
    /**
     * How many tokens the engine does not compute: those of the first blocks that are all here, and never the whole prompt. These blocks
     * are used, and so become the newest.
     */
    read(prompt: readonly string[]): number {
      const names = blockNamesOf(prompt).slice(0, Math.floor((prompt.length - 1) / blockTokens));
      const missing = names.findIndex((name) => !blocks.has(name));
      const found = missing === -1 ? names : names.slice(0, missing);
      use(found);
      return found.length * blockTokens;
    },
    /** Keeps all whole blocks of a prompt and of its answers. */
    keep({ prompt, answers }: TokenSequence): void {
      for (const answer of answers) use(blockNamesOf([...prompt, ...answer]));
      for (const oldest of blocks) {
        if (blocks.size <= blocksMax) break;
        blocks.delete(oldest);
      }
    },
    size: (): number => blocks.size * blockTokens,
  };
}

/** The names of all whole blocks: each depends on the block and on all before it. */
export function blockNamesOf(tokens: readonly string[]): string[] {
  const names: string[] = [];
  let before = '';
  for (let end = blockTokens; end <= tokens.length; end += blockTokens) {
    before = hash('sha1', `${before}\u0000${tokens.slice(end - blockTokens, end).join('\u0000')}`, 'base64');
    names.push(before);
  }
  return names;
}
