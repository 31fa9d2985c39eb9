import { answerIdIn } from '../answers/answer-id.ts';
import { createSample } from '../answers/sample.ts';
import type { SizeBudget } from '../definition/answer-format.ts';
import { type AnswerAssembler, nothingWritten, type StreamOptions } from '../definition/answer-format.ts';
import { type Chunk, writtenIn } from './choices-schemas.ts';
import type { BackendAnswer } from './convert-answer.ts';
import { createAnswerProgress } from './follow-answer.ts';
import { mergeDeltas } from './merge-deltas.ts';
import { parseChunk } from './parse-chunk.ts';
import type { ChoicesKind } from './required-properties.ts';

type ChunkChoice = Chunk['choices'][number];

/** A choice that arrives in parts. `size`: the characters of the event with a part. */
export interface AssembledChoice {
  add(part: ChunkChoice, size: number): void;
  /** Ends it for this reason. */
  end(reason: 'length' | 'stop'): void;
  /** The choice without its index. */
  toObject(): object;
}

/** Fields that are written below, kept separately (`usage`), or without meaning in a whole answer: OpenAI pads its chunks. */
const notKept = new Set(['object', 'model', 'choices', 'usage', 'error', 'obfuscation']);

/** Assembles an answer of this kind from the chunks of a stream. */
export function createChoicesAssembler(
  { object, choicesMax }: Pick<ChoicesKind, 'object' | 'choicesMax'>,
  createChoice: (budget: SizeBudget) => AssembledChoice,
) {
  return ({
    model,
    budget,
    ...asked
  }: StreamOptions): Omit<AnswerAssembler, 'answer'> & { answer(): BackendAnswer } => {
    const progress = createAnswerProgress({ choicesMax, ...asked });
    const sample = createSample();
    const head = mergeDeltas(budget);
    const choices = new Map<number, AssembledChoice>();
    let latestWritten = nothingWritten;

    function choiceOf(index: number): AssembledChoice {
      const present = choices.get(index);
      if (present !== undefined) return present;
      const created = createChoice(budget);
      choices.set(index, created);
      return created;
    }

    return {
      take(data) {
        latestWritten = nothingWritten;
        if (data === '[DONE]') {
          progress.finish();
          for (const index of progress.endedByDone()) choiceOf(index).end('stop');
          return;
        }
        const chunk = parseChunk(data);
        if (chunk === undefined) return;
        latestWritten = progress.follow(chunk);
        for (const name in chunk) if (!notKept.has(name)) head.replace(name, chunk[name], data.length);
        const size = data.length / Math.max(1, chunk.choices.length);
        for (const part of chunk.choices) {
          sample.add(writtenIn(part));
          choiceOf(part.index ?? 0).add(part, size);
        }
      },
      written: () => latestWritten,
      cut(choicesAsked) {
        for (const index of progress.unfinished(choicesAsked)) choiceOf(index).end('length');
      },
      begun: progress.begun,
      complete: progress.complete,
      id: () => answerIdIn(head.toObject()),
      usage: progress.usage,
      text: sample.text,
      answer() {
        const inOrder = Array.from(choices).toSorted(([one], [other]) => one - other);
        const answer = {
          ...head.toObject(),
          object,
          model,
          choices: inOrder.map(([index, choice]) => ({ index, ...choice.toObject() })),
          ...(progress.usage() !== undefined && { usage: progress.reportedUsage() }),
        };
        return { text: JSON.stringify(answer), answer, usage: progress.usage() };
      },
    };
  };
}
