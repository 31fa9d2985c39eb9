import { endpointAt } from '../../shared/endpoints/endpoints.ts';
import { estimateTokens } from '../../shared/endpoints/tokens/estimate-tokens.ts';
import type { QueuedCall } from '../../shared/jobs/inference-job.ts';

/** Longer texts are counted in this many samples of this many characters, which together are `countedCharactersMax`. */
const samples = 64;
const sampleCharacters = 512;
const countedCharactersMax = samples * sampleCharacters;
/**
 * The tokenizer's time grows with the square of an unbroken run of characters, so a text is counted in parts of at most 128. A part ends
 * before a single space, where the encoding also has a boundary. Only a run without a space is cut elsewhere.
 */
const parts = /.{0,127}\S(?= \S|$)|.{1,128}/gsu;
/** Counted in one turn of the event loop. Random letters of Georgian, the slowest content, take up to 6 µs a character. */
const countedAtOnce = 1_024;
/** Estimated in one turn of the event loop: 16 ns a character. */
const estimatedAtOnce = 131_072;

/**
 * Loads the tokenizer. Await it before a worker takes jobs: loading blocks the event loop for half a second, and would delay every stream
 * when the first client leaves.
 */
export async function loadTokenizer(): Promise<void> {
  await countTokens('東'); // the first text takes extra time, because the encoding is prepared then
}

/**
 * Counts the tokens of a text in the o200k_base encoding: exact up to 32,768 characters of words and lines. A longer text is sampled. The
 * tokenizer is loaded at its first use at the latest.
 */
export async function countTokens(text: string, random: () => number = Math.random): Promise<number> {
  return text.length <= countedCharactersMax ? countAll(text) : countSamples(text, random);
}

/**
 * Counts the tokens of the prompt of a payload: of its texts, and of its media by their estimate. Parsing a payload and finding its texts
 * take a turn of the event loop each, which grows with the payload (contract.md#ho3-caches).
 */
export async function countPromptTokens({
  endpoint,
  payload,
}: Pick<QueuedCall, 'endpoint' | 'payload'>): Promise<number> {
  const parsed: object = JSON.parse(payload);
  await turnFor(Math.min(payload.length, countedAtOnce));
  const { texts, tokens } = endpointAt(endpoint).request.promptOf(parsed);
  await turnFor(Math.min(payload.length, countedAtOnce));
  return (await countTokens(texts.join('\n'))) + tokens;
}

/**
 * Estimates the tokens of the whole text, and corrects the estimate by what the tokenizer counts in samples of it. Each sample is at a
 * random place within its own part of the text. So no client can know which places count, and cheap text anywhere hides no other text.
 */
async function countSamples(text: string, random: () => number): Promise<number> {
  let counted = 0;
  let estimated = 0;
  for (const sample of samplesOf(text, random)) {
    counted += await countAll(sample);
    estimated += estimateTokens(sample);
  }
  return Math.max(counted, Math.ceil((counted * (await estimateAll(text))) / Math.max(1, estimated)));
}

function samplesOf(text: string, random: () => number): string[] {
  const length = text.length / samples;
  return Array.from({ length: samples }, (_, index) => {
    const start = Math.floor(index * length + random() * (length - sampleCharacters));
    return text.slice(start, start + sampleCharacters);
  });
}

async function estimateAll(text: string): Promise<number> {
  let estimated = 0;
  for (let start = 0; start < text.length; start += estimatedAtOnce) {
    await turnFor(countedAtOnce);
    estimated += estimateTokens(text.slice(start, start + estimatedAtOnce));
  }
  return estimated;
}

async function countAll(text: string): Promise<number> {
  const { countTokens: count, setMergeCacheSize } = await import('gpt-tokenizer/encoding/o200k_base');
  setMergeCacheSize(0); // contract.md#ho3-caches
  // A special token in a client's text is counted as plain text.
  const options = { disallowedSpecial: new Set<string>() };
  let counted = 0;
  let ahead = text.length;
  let leftInTurn = 0;
  for (const part of text.match(parts) ?? []) {
    if (leftInTurn < part.length) {
      leftInTurn = Math.min(ahead, countedAtOnce);
      await turnFor(leftInTurn);
    }
    counted += count(part, options);
    ahead -= part.length;
    leftInTurn -= part.length;
  }
  return counted;
}

type WaitingSlice = { characters: number; begin: () => void };

/** Slices of all texts that are being counted, in order. Together they take no longer in a turn than one slice does. */
const waiting: WaitingSlice[] = [];

/** Resolves in a turn of the event loop with enough time left for so many characters. */
function turnFor(characters: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  if (waiting.push({ characters, begin: resolve }) === 1) setImmediate(beginSlices);
  return promise;
}

function beginSlices(): void {
  let left = countedAtOnce;
  for (let next = waiting[0]; next !== undefined && next.characters <= left; next = waiting[0]) {
    left -= next.characters;
    waiting.shift();
    next.begin();
  }
  if (waiting.length > 0) setImmediate(beginSlices);
}
