import type { AnswerFormat, StreamFormat } from '../definition/answer-format.ts';
import { answerText, type BackendAnswer, parseAnswer, presentAnswer } from './convert-answer.ts';
import { createChunkConverter } from './convert-chunks.ts';
import { cutAnswer } from './cut-answer.ts';
import { doneEnding } from './done-ending.ts';
import type { ChoicesKind } from './required-properties.ts';
import { wholeAsChunks } from './whole-as-chunks.ts';

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
