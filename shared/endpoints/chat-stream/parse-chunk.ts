import { z } from 'zod';
import { isObject } from '../../json/json-values.ts';
import { notAnAnswer, readSaid, requireEnded } from '../answers/backend-error.ts';
import { parseBackendJson } from '../answers/parse-backend-json.ts';
import { writtenText } from '../answers/written-text.ts';
import { usageIn } from './choices-usage.ts';

/**
 * Answers that consist of choices: chat completions and text completions. Known fields are checked; unknown fields pass through. Null means
 * absent. Source: the OpenAI API reference, chat completions and completions.
 */

/** A whole answer. Usage is checked separately: unreadable usage counts as missing. */
export const choicesAnswerSchema = z.looseObject({
  model: z.string().nullish(),
  choices: z.array(z.looseObject({ message: z.looseObject({}).nullish(), text: z.string().nullish() })).min(1),
});

export type ChoicesAnswer = z.infer<typeof choicesAnswerSchema>;

/** One event of a streamed answer. */
export const chunkSchema = z.looseObject({
  model: z.string().nullish(),
  choices: z.array(
    z.looseObject({
      index: z.int().nonnegative().nullish(),
      delta: z.looseObject({}).nullish(),
      text: z.string().nullish(),
      finish_reason: z.string().nullish(),
    }),
  ),
});

export type Chunk = z.infer<typeof chunkSchema>;

type Choice = { delta?: unknown; message?: unknown; text?: unknown };

/**
 * What the model wrote in a choice. Some servers send a message in a stream as in a whole answer, or the same text in both places: the
 * longer one counts.
 */
export function writtenIn({ delta, message, text }: Choice): string {
  const inMessage = writtenText(delta ?? message);
  return typeof text === 'string' && text.length > inMessage.length ? writtenText(text) : inMessage;
}

/**
 * Parses the data of one event of a streamed answer. Undefined for what is no chunk and no error, and is skipped
 * (contract.md#ms9-what-is-skipped). Fails with `BackendError`, with the backend's own error if it is one.
 */
export function parseChunk(data: string): Chunk | undefined {
  if (data.trim() === '') return undefined;
  const value = parseBackendJson(data, 'an event');
  const chunk = isPlainChunk(value) ? value : chunkSchema.safeParse(withChoices(value)).data;
  // A chunk with an error is no chunk, even if it has other fields: passed on, it would be followed by [DONE].
  if (chunk !== undefined && chunk.error == null) {
    for (const choice of chunk.choices) requireEnded(choice.finish_reason);
    return chunk;
  }
  if (isOther(value) && readSaid(value) === undefined) return undefined;
  throw notAnAnswer(value, 'an event is not a chunk');
}

/** Some servers report usage in an event without choices. */
function withChoices(value: unknown): unknown {
  return isObject(value) && value.choices == null && usageIn(value) != null ? { ...value, choices: [] } : value;
}

function isOther(value: unknown): boolean {
  return value === null || (isObject(value) && value.choices == null && value.error == null);
}

/**
 * Whether the schema would accept the value unchanged. This holds for nearly every chunk, at a tenth of the schema's cost. The schema
 * decides about all others.
 */
export function isPlainChunk(value: unknown): value is Chunk {
  if (!isObject(value) || !Array.isArray(value.choices)) return false;
  if (value.model != null && typeof value.model !== 'string') return false;
  return value.choices.every(isPlainChoice);
}

function isPlainChoice(choice: unknown): boolean {
  if (!isObject(choice)) return false;
  const { index, delta, text, finish_reason: finishReason } = choice;
  return (
    (index == null || (Number.isSafeInteger(index) && Number(index) >= 0)) &&
    (delta == null || isObject(delta)) &&
    (text == null || typeof text === 'string') &&
    (finishReason == null || typeof finishReason === 'string')
  );
}
