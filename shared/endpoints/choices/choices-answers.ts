import { isObject } from '../../is-object.ts';
import type { AnswerFormat, StreamFormat } from '../definition/answer-format.ts';
import { answerText, type BackendAnswer, parseAnswer, presentAnswer } from './convert-answer.ts';
import { createChunkConverter } from './convert-chunks.ts';
import { cutAnswer } from './cut-answer.ts';
import { doneEnding } from './done-ending.ts';
import type { ChoicesKind } from './required-properties.ts';

/** The format of answers that consist of choices. */
export function choicesAnswers(kind: ChoicesKind, assembly?: StreamFormat['assembly']): AnswerFormat {
  return {
    parse: parseAnswer,
    writtenIn: (answer: BackendAnswer) => answerText(answer),
    cut: (answer: BackendAnswer, share) => cutAnswer(answer, share),
    present: (answer: BackendAnswer, tokens, context) => presentAnswer(answer, tokens, { ...context, kind }),
    stream: {
      convert: (options) => createChunkConverter(kind, options),
      eventsOf: (answer: BackendAnswer) => wholeAsChunks(answer),
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
