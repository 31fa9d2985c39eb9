import { answerIdIn } from '../answers/answer-id.ts';
import { mapped, withMissing } from '../answers/with-missing.ts';
import type { StreamOptions } from '../definition/answer-format.ts';
import type { Chunk } from './choices-schemas.ts';
import { withoutUsage } from './choices-usage.ts';
import { callIdOf, createNumberedCalls, type NumberedCalls } from './number-tool-calls.ts';
import { type ChoicesKind, completeChunk } from './required-properties.ts';

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

export type ChunkPresenter = ReturnType<typeof createChunkPresenter>;

function hasCalls({ delta }: Choice): boolean {
  return delta?.tool_calls != null || delta?.function_call != null;
}
