import { z } from 'zod';
import { BackendError } from '../answers/backend-error.ts';
import { notAnAnswer } from '../answers/backend-said.ts';
import { cutFields } from '../answers/cut-text.ts';
import { requireEnded } from '../answers/ended-reason.ts';
import { parseBackendJson } from '../answers/parse-backend-json.ts';
import type { AnswerContext, AnswerTokens, WholeAnswer } from '../definition/answer-format.ts';
import { completeResponse } from './required-properties.ts';
import { presentUsage, readUsage } from './response-usage.ts';
import { outputText } from './written-output.ts';

const responseSchema = z.looseObject({
  model: z.string().nullish(),
  status: z.string().nullish(),
  output: z.array(z.looseObject({})),
});

/** A response that is `in_progress` would have to be asked for again. */
const ends = new Set(['completed', 'incomplete']);

/** A whole response (OpenAI API reference, responses). */
export type ResponseAnswer = WholeAnswer & { answer: z.infer<typeof responseSchema> };

export function parseResponse(text: string): ResponseAnswer {
  const value = parseBackendJson(text, 'the answer');
  const parsed = responseSchema.safeParse(value);
  if (!parsed.success || parsed.data.error != null)
    throw notAnAnswer(value, 'the answer is no response', { cause: parsed.error });
  const { status } = parsed.data;
  requireEnded(status);
  if (status != null && !ends.has(status)) throw new BackendError('unreadable', 'the answer is no ended response');
  return { text, answer: parsed.data, usage: readUsage(parsed.data.usage) };
}

export function responseText({ answer }: ResponseAnswer): string {
  return outputText(answer.output);
}

export const cutShort = { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } };

/** Returns this share of a response, from its beginning. */
export function cutResponse({ answer, usage }: ResponseAnswer, share: number): ResponseAnswer {
  const budget = { left: Math.floor(outputText(answer.output).length * share) };
  const cut = { ...answer, ...cutFields({ output: answer.output }, budget), ...cutShort };
  return { text: JSON.stringify(cut), answer: cut as ResponseAnswer['answer'], usage }; // only texts and the end of lists were cut
}

/** Returns the response for the client: unchanged, unless the model has another name, or a property or the usage has to be added. */
export function presentResponse(
  { text, answer, usage }: ResponseAnswer,
  tokens: AnswerTokens,
  context: AnswerContext,
): string {
  const complete = completeResponse(answer, context);
  const counted = presentUsage(tokens, answer.usage);
  const isSame = usage !== undefined && JSON.stringify(counted) === JSON.stringify(answer.usage);
  return complete === answer && isSame ? text : JSON.stringify({ ...complete, usage: counted });
}
