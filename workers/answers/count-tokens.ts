import { endpointAt } from '../../shared/endpoints/routes.ts';
import type { QueuedCall } from '../../shared/jobs/inference-job.ts';

/** Counting blocks the event loop. Of a longer text, only this much is counted, and the rest is extrapolated. */
const countedCharactersMax = 32_768;
/**
 * The tokenizer's time grows with the square of an unbroken run of characters, so a text is counted in parts of at most 512. A part ends
 * before a single space, where the encoding also has a boundary. Only a run without a space is cut elsewhere.
 */
const parts = /.{0,511}\S(?= \S|$)|.{1,512}/gsu;

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

/** Counts the tokens of the prompt of a queued body. */
export async function countPromptTokens({ endpoint, body }: Pick<QueuedCall, 'endpoint' | 'body'>): Promise<number> {
  const { texts, tokens } = endpointAt(endpoint).request.promptOf(JSON.parse(body));
  return (await countTokens(texts.join('\n'))) + tokens;
}
