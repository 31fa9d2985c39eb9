import { errorFrame } from '../../errors.ts';
import { isObject } from '../../json/json-values.ts';
import { notAnAnswer, requireEnded } from '../answers/backend-error.ts';
import { parseBackendJson } from '../answers/parse-backend-json.ts';
import { cutFields, cutLists, longestWithin } from '../answers/written-text.ts';
import type {
  AnswerContext,
  AnswerFormat,
  AnswerTokens,
  ReportedUsage,
  StreamEnding,
  StreamFormat,
  WholeAnswer,
} from '../definition/answer-format.ts';
import { createChunkConverter } from './convert-chunks.ts';
import {
  type ChoicesAnswer,
  choicesAnswerSchema,
  isPresentedAs,
  presentUsage,
  readUsage,
  sumOfChoices,
  usageIn,
  withoutUsage,
  writtenIn,
} from './follow-answer.ts';
import { type ChoicesKind, completeAnswer } from './present-chunks.ts';

/** The format of answers that consist of choices. */
export function choicesAnswers(kind: ChoicesKind, assembly?: StreamFormat['assembly']): AnswerFormat {
  return {
    parse: parseAnswer,
    writtenIn: answerText,
    cut: cutAnswer,
    present: (answer: BackendAnswer, tokens, context) => presentAnswer(answer, tokens, { ...context, kind }),
    stream: {
      convert: (options) => createChunkConverter(kind, options),
      eventsOf: wholeAsChunks,
      ...(assembly !== undefined && { assembly }),
      ending: () => doneEnding,
    },
  };
}

/** The chunks of a stream that say what a whole answer says: one with all of it, and one with its usage. */
function wholeAsChunks({ answer }: BackendAnswer): string[] {
  const { object: _, choices, usage, ...head } = answer;
  const parts = choices.map(({ message, ...choice }, index) => ({
    index,
    ...choice,
    ...(message != null && { delta: withNumberedCalls(message) }),
  }));
  const counted = usage === undefined ? [] : [{ ...head, choices: [], usage }];
  return [{ ...head, choices: parts }, ...counted].map((chunk) => JSON.stringify(chunk));
}

/** A whole answer does not number them. */
function withNumberedCalls(message: Readonly<Record<string, unknown>>): object {
  const { tool_calls: calls } = message;
  if (!Array.isArray(calls)) return message;
  return { ...message, tool_calls: calls.map((call, index) => (isObject(call) ? { index, ...call } : call)) };
}

/** A whole answer, parsed. */
export type BackendAnswer = WholeAnswer & { answer: ChoicesAnswer };

export function parseAnswer(text: string): BackendAnswer {
  const value = parseBackendJson(text, 'the answer');
  const parsed = choicesAnswerSchema.safeParse(value);
  // As in a stream: passed on, an error beside choices would show a client what is only for operators.
  if (!parsed.success || parsed.data.error != null)
    throw notAnAnswer(value, 'the answer has no choices', { cause: parsed.error });
  for (const choice of parsed.data.choices) requireEnded(choice.finish_reason);
  return { text, answer: parsed.data, usage: usageOf(parsed.data) };
}

/** Some servers report the usage of each choice in it. */
function usageOf(answer: ChoicesAnswer): ReportedUsage | undefined {
  const reported = usageIn(answer);
  if (reported !== undefined) return readUsage(reported);
  const ofChoices = answer.choices.flatMap(({ usage }) => readUsage(usage) ?? []);
  return ofChoices.length < answer.choices.length ? undefined : sumOfChoices(ofChoices);
}

/** All that the model has written, for counting. */
export function answerText({ answer }: BackendAnswer): string {
  return answer.choices.map(writtenIn).join('\n');
}

/**
 * Returns the answer for the client: as the backend wrote it, unless the backend uses another name for the model, left out a required
 * property, or reported no usage or another than is charged. Then these are replaced.
 */
export function presentAnswer(
  { text, answer }: BackendAnswer,
  tokens: AnswerTokens,
  { kind, ...context }: AnswerContext & { kind: ChoicesKind },
): string {
  const { model } = context;
  const complete = completeAnswer(answer, kind, context);
  const isUnchanged = complete === answer && answer.model === model;
  if (isUnchanged && isPresentedAs(answer.usage, tokens)) return text;
  return JSON.stringify({ ...withoutUsage(complete), model, usage: presentUsage(tokens, usageIn(answer)) });
}

/**
 * Returns this share of a whole answer. The longest choices are cut at their ends, so that no choice is cut while a longer one remains:
 * the model's reasoning comes first, then its text, then its tool calls. They end as a backend ends them at its limit.
 */
export function cutAnswer({ answer, usage }: BackendAnswer, shareOfAll: number): BackendAnswer {
  const lengths = answer.choices.map((choice) => writtenIn(choice).length);
  const longest = longestWithin(lengths, shareOfAll * lengths.reduce((sum, length) => sum + length, 0));
  const choices = answer.choices.map((choice, index) => {
    const written = lengths[index] ?? 0;
    return written <= longest ? choice : cutChoice(choice, longest, longest / written);
  });
  const cut = { ...answer, choices };
  return { text: JSON.stringify(cut), answer: cut, usage };
}

type Choice = ChoicesAnswer['choices'][number];

function cutChoice(choice: Choice, length: number, share: number): Choice {
  const { message, text, logprobs } = choice;
  const budget = () => ({ left: Math.floor(length) });
  return {
    ...choice,
    ...(message != null && { message: cutFields(message, budget()) }),
    ...(text != null && cutFields({ text }, budget())),
    ...(isObject(logprobs) && { logprobs: cutLists(logprobs, share) }),
    finish_reason: 'length',
  };
}

/** A complete stream ends with `[DONE]`, an interrupted one with a frame that has an error (contract.md#d4-broken-streams). */
export const doneEnding: StreamEnding = {
  complete: () => 'data: [DONE]\n\n',
  broken: (error) => `data: ${JSON.stringify(errorFrame(error))}\n\n`,
};
