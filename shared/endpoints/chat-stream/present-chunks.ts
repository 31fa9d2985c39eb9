import type { Json } from '../../json/json-values.ts';
import { answerIdIn, mapped, withMissing } from '../answers/with-missing.ts';
import type { AnswerContext, StreamOptions } from '../definition/answer-format.ts';
import { type Chunk, withoutUsage } from './follow-answer.ts';
import { callIdOf, createNumberedCalls, type NumberedCalls, withWholeCalls } from './number-tool-calls.ts';

type Choice = Chunk['choices'][number];

/** Writes the chunks of one stream for its client. */
export function createChunkPresenter(kind: ChoicesKind, options: StreamOptions) {
  const { model } = options;
  const callsOf = new Map<number, NumberedCalls>();
  let id: string | undefined;

  /** Some servers name the answer only in its first chunk. */
  function complete(chunk: Chunk): Chunk {
    return completeChunk(id === undefined ? chunk : withMissing(chunk, { id }), kind, options);
  }

  function withCalls(choice: Choice): Choice {
    const { delta } = choice;
    if (delta == null || !hasCalls(choice)) return choice;
    const index = choice.index ?? 0;
    const calls = callsOf.get(index) ?? createNumberedCalls(callIdOf(options, index), options.budget);
    callsOf.set(index, calls);
    const published = calls.publish(delta);
    return published === delta ? choice : { ...choice, delta: published };
  }

  return {
    /** Takes the next chunk. Returns it with its calls of tools as OpenAI publishes them: the chunk itself if nothing changes. */
    take(chunk: Chunk): Chunk {
      id ??= answerIdIn(chunk);
      if (!chunk.choices.some(hasCalls)) return chunk;
      const choices = mapped(chunk.choices, withCalls);
      return choices === chunk.choices ? chunk : { ...chunk, choices: [...choices] };
    },
    /** The JSON for the client, on one line: the data as it came, unless something in it has to be replaced. `given` was parsed from it. */
    present(data: string, given: Chunk, chunk: Chunk): string {
      const whole = withoutUsage(complete(chunk));
      if (whole !== given || given.model !== model) return JSON.stringify({ ...whole, model });
      // Data on several lines would need a `data:` for each line.
      return data.includes('\n') ? JSON.stringify(JSON.parse(data)) : data;
    },
    /** A chunk of ours, with the head of an earlier one. */
    own: (earlier: Chunk | undefined, choices: readonly object[]): Readonly<Record<string, unknown>> => ({
      ...withoutUsage(complete({ ...earlier, choices: [...choices] as Choice[] })),
      model,
    }), // they are of ours
    /** The backend's id of the answer. */
    id: (): string | undefined => id,
  };
}

function hasCalls({ delta }: Choice): boolean {
  return delta?.tool_calls != null || delta?.function_call != null;
}

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
function completeChunk<T extends Answer>(chunk: T, kind: ChoicesKind, context: AnswerContext): T {
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
