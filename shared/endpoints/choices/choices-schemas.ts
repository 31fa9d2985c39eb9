import { z } from 'zod';
import { writtenText } from '../answers/written-text.ts';

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
