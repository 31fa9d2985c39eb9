import { mapped, withMissing } from '../answers/with-missing.ts';
import type { AnswerContext } from '../definition/answer-format.ts';
import { callIdOf, withWholeCalls } from './number-tool-calls.ts';

/** What differs between the endpoints whose answers are choices. */
export type ChoicesKind = {
  /** `object` of a whole answer and of a chunk, and the beginning of ids. */
  object: string;
  chunkObject: string;
  idPrefix: string;
  /** The most choices that one answer can have. */
  choicesMax: number;
  /** Properties that a choice of a whole answer, and of a chunk, must have. */
  choice: Readonly<Record<string, unknown>>;
  chunkChoice: Readonly<Record<string, unknown>>;
  /** Properties that a message must have, if choices have messages. */
  message?: Readonly<Record<string, unknown>>;
  /** What a choice has that is ended at the output limit. */
  ended: Readonly<Record<string, unknown>>;
};

type Json = Readonly<Record<string, unknown>>;
type Answer = Json & { choices: readonly Json[] };

/** Returns a whole answer as OpenAI's description requires it: the answer itself if nothing is missing or has another form. */
export function completeAnswer<T extends Answer>(answer: T, kind: ChoicesKind, context: AnswerContext): T {
  const { message: required } = kind;
  const choices = mapped(answer.choices, (choice, index) => {
    const whole = withMissing(withReason(choice), { index, ...kind.choice });
    if (required === undefined) return whole;
    const { message } = whole as { message: Json }; // the schema has checked it
    const complete = withWholeCalls(withMissing(message, required), callIdOf(context, index));
    return complete === message ? whole : { ...whole, message: complete };
  });
  return withMissing(withChoices(answer, choices), headOf(kind.object, kind, context));
}

/** Does the same for a chunk. */
export function completeChunk<T extends Answer>(chunk: T, kind: ChoicesKind, context: AnswerContext): T {
  const choices = mapped(chunk.choices, (choice) => withMissing(withReason(choice), { index: 0, ...kind.chunkChoice }));
  return withMissing(withChoices(chunk, choices), headOf(kind.chunkObject, kind, context));
}

/** Some servers send an empty reason for none. */
function withReason(choice: Json): Json {
  return choice.finish_reason === '' ? { ...choice, finish_reason: null } : choice;
}

function headOf(object: string, { idPrefix }: ChoicesKind, { requestId, createdAt, model }: AnswerContext): Json {
  return { id: idPrefix + requestId, object, created: createdAt, model };
}

function withChoices<T extends Answer>(answer: T, choices: readonly Json[]): T {
  return choices === answer.choices ? answer : { ...answer, choices };
}
