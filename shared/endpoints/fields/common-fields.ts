import { z } from 'zod';
import { isObject } from '../../json/json-values.ts';

/** Fields that several endpoints have. */

const isText = (value: unknown) => typeof value === 'string';

const areTexts = (value: unknown) => Array.isArray(value) && value.every(isText);

export const logitBias = z
  .custom<Record<string, number>>(
    (value) => isObject(value) && Object.values(value).every((bias) => typeof bias === 'number'),
    'expected an object of numbers',
  )
  .meta({ documentedAs: z.record(z.string(), z.number()) });

/** OpenAI allows 4 for `stop`. Model servers search for each of them after every token. */
export const textsMax = 64;
export const areFewTexts = (value: unknown) => Array.isArray(value) && value.length <= textsMax && areTexts(value);

export const fewStops = z
  .custom<string | string[]>(
    (value) => isText(value) || areFewTexts(value),
    `expected a string or an array of at most ${textsMax} strings`,
  )
  .meta({ documentedAs: z.union([z.string(), z.array(z.string()).max(textsMax)]) });

export const temperature = z.number().min(0).max(2);
export const topP = z.number().min(0).max(1);
export const penalty = z.number().min(-2).max(2);

export const streamFlag = z.boolean().meta({ description: 'Whether to stream the response as server-sent events.' });
export const streamOptions = z
  .looseObject({ include_usage: z.boolean().nullish() })
  .meta({ description: 'With `stream` only.' });

/** What the service asks for in `stream_options`: whether there is a usage in every chunk is the operator's setting, `usage_in_chunks`. */
export function withUsageAtEnd(options: unknown): object {
  return Object.assign({}, options, { include_usage: true, continuous_usage_stats: undefined });
}

/** The check stops after this many issues: only ten are named, and a body with nothing but issues must not cost seconds and gigabytes. */
export const issuesMax = 11;

/** Adds the issues of a list's items to `ctx`, each under its item's index, until there are enough. */
export function checkItems(items: readonly unknown[], item: z.ZodType, ctx: z.RefinementCtx): void {
  let issues = 0;
  for (const [index, value] of items.entries()) {
    for (const { path, message } of item.safeParse(value).error?.issues ?? []) {
      ctx.addIssue({ code: 'custom', path: [index, ...path], message });
      issues++;
    }
    if (issues >= issuesMax) return;
  }
}

/** `documentedAs`, here and in other schemas: the schema that documents for clients what is checked by hand. */
export function listOf(item: z.ZodType) {
  return z
    .custom<unknown[]>(Array.isArray, 'expected an array')
    .superRefine((items, ctx) => checkItems(items, item, ctx))
    .meta({ documentedAs: z.array(item) });
}

/**
 * A prompt in one of OpenAI's four forms: a text, a list of texts, a list of token ids, or a list of such lists (OpenAI API reference,
 * completions and embeddings).
 */
type PromptInput = string | readonly string[] | readonly number[] | readonly (readonly number[])[];

/** OpenAI's limit for embeddings. */
const promptsMax = 2_048;

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
