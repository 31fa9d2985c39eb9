import { z } from 'zod';
import { tokensPerMessage } from '../../shared/chat-call/prompt-size.ts';

/** Counting blocks the event loop. Of a longer text, only this much is counted, and the rest is extrapolated. */
const countedCharactersMax = 32_768;
/**
 * The tokenizer's time grows with the square of an unbroken run of characters, so a text is counted in parts of at most 512. A part ends
 * before a single space, where the encoding also has a boundary. Only a run without a space is cut elsewhere.
 */
const parts = /.{0,511}\S(?= \S|$)|.{1,512}/gsu;

const promptSchema = z.looseObject({
  messages: z.array(
    z.looseObject({
      content: z.union([z.string(), z.array(z.looseObject({ text: z.string().optional() })), z.null()]).optional(),
    }),
  ),
});

/**
 * Loads the tokenizer. Await it before a worker takes jobs: loading blocks the event loop for half a second, and would delay every stream
 * when the first client leaves.
 */
export async function loadTokenizer(): Promise<void> {
  await countTokens('東'); // the first text takes extra time, because the encoding is prepared then
}

/**
 * Counts the tokens of a text in the o200k_base encoding: exact up to 32,768 characters of words and lines, an estimate beyond that. The
 * tokenizer is loaded at its first use at the latest.
 */
export async function countTokens(text: string): Promise<number> {
  const { countTokens: count } = await import('gpt-tokenizer/encoding/o200k_base');
  // A special token in a client's text is counted as plain text.
  const options = { disallowedSpecial: new Set<string>() };
  const counted = (text.slice(0, countedCharactersMax).match(parts) ?? []).reduce(
    (sum, part) => sum + count(part, options),
    0,
  );
  return Math.ceil(counted * Math.max(1, text.length / countedCharactersMax));
}

/** Counts the tokens of a request's messages. `body`: the request as it was queued. */
export async function countPromptTokens(body: string): Promise<number> {
  const { messages } = promptSchema.parse(JSON.parse(body));
  const texts = messages.map(({ content }) =>
    Array.isArray(content) ? content.map(({ text }) => text ?? '').join('') : (content ?? ''),
  );
  return (await countTokens(texts.join('\n'))) + messages.length * tokensPerMessage;
}
