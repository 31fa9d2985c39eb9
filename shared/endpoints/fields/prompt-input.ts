import { z } from 'zod';

/**
 * A prompt in one of OpenAI's four forms: a text, a list of texts, a list of token ids, or a list of such lists (OpenAI API reference,
 * completions and embeddings).
 */
export type PromptInput = string | readonly string[] | readonly number[] | readonly (readonly number[])[];

/** OpenAI's limit for embeddings. */
export const promptsMax = 2_048;

const expected = 'expected a string, an array of strings, an array of token ids, or an array of such arrays';

/** Checks a prompt by hand: a request may have a million token ids. */
export const promptInput = z
  .custom<PromptInput>()
  .superRefine((value, ctx) => {
    const message = issueOf(value);
    if (message !== undefined) ctx.addIssue(message);
  })
  .meta({
    documentedAs: z.union([
      z.string(),
      z.array(z.string()).min(1).max(promptsMax),
      z.array(z.int().nonnegative()).min(1),
      z.array(z.array(z.int().nonnegative()).min(1)).min(1).max(promptsMax),
    ]),
  });

function issueOf(value: unknown): string | undefined {
  if (typeof value === 'string') return undefined;
  if (!Array.isArray(value)) return expected;
  if (value.length === 0) return 'expected at least one item';
  if (areTokens(value)) return undefined;
  if (value.length > promptsMax) return `expected at most ${promptsMax} items`;
  const isText = typeof value[0] === 'string';
  const isRight = (item: unknown) =>
    isText ? typeof item === 'string' : Array.isArray(item) && item.length > 0 && areTokens(item);
  return value.every(isRight) ? undefined : expected;
}

function areTokens(items: readonly unknown[]): boolean {
  return items.every((item) => Number.isSafeInteger(item) && Number(item) >= 0);
}

/** Returns the prompts: the texts among them, and the tokens of those that are token ids. Any other value counts as one prompt. */
export function promptsIn(input: unknown): { texts: string[]; tokens: number; prompts: number } {
  if (typeof input === 'string') return { texts: [input], tokens: 0, prompts: 1 };
  if (!Array.isArray(input)) return { texts: [], tokens: 0, prompts: 1 };
  const items: readonly unknown[] = input;
  if (typeof items[0] === 'number') return { texts: [], tokens: items.length, prompts: 1 };
  const texts = items.filter((item) => typeof item === 'string');
  const tokens = items.reduce<number>((sum, item) => sum + (Array.isArray(item) ? item.length : 0), 0);
  return { texts, tokens, prompts: items.length };
}
