import { createSample } from '../answers/convert-events.ts';
import { answerIdIn } from '../answers/with-missing.ts';
import {
  type AnswerAssembler,
  nothingWritten,
  type SizeBudget,
  type StreamOptions,
} from '../definition/answer-format.ts';
import type { BackendAnswer } from './choices-answers.ts';
import { type Chunk, createAnswerProgress, parseChunk, writtenIn } from './follow-answer.ts';
import type { ChoicesKind } from './present-chunks.ts';

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

/** Fields of an object that arrives in parts. `size`: the characters of the event with the value. */
export interface MergedDeltas {
  get(name: string): unknown;
  /** The later value counts. `null` does not replace a value. */
  replace(name: string, value: unknown, size: number): void;
  /** Texts and lists are extended. Anything else is replaced. */
  extend(name: string, value: unknown, size: number): void;
  toObject(): Record<string, unknown>;
}

/** Memory of a part besides its text, because a stream of empty or tiny parts has a cost, too. */
const partCharacters = 16;

export function mergeDeltas(budget: SizeBudget): MergedDeltas {
  // A map, because the backend chooses the names: `__proto__` is a name like any other.
  const fields = new Map<string, { value: unknown; size: number }>();

  function put(name: string, value: unknown, size: number): void {
    const present = fields.get(name);
    if (present === undefined) {
      budget.spend(name.length + partCharacters + size);
      fields.set(name, { value, size });
      return;
    }
    budget.spend(size - present.size);
    present.value = value;
    present.size = size;
  }

  function replace(name: string, value: unknown, size: number): void {
    const present = fields.get(name);
    // Most fields of a chunk, except its text, repeat those of the previous chunk.
    if (present !== undefined && (value === null || value === present.value)) return;
    put(name, value, sizeOf(value, size));
  }

  return {
    get: (name) => fields.get(name)?.value,
    replace,
    extend(name, value, size) {
      const present = fields.get(name);
      if (present === undefined || present.value === null || !isGrowing(value) || !isGrowing(present.value)) {
        return replace(name, value, size);
      }
      if (value.length === 0) return;
      put(name, join(present.value, value), present.size + sizeOf(value, size) + partCharacters);
    },
    toObject: () => Object.fromEntries(Array.from(fields, ([name, { value }]) => [name, value])),
  };
}

function sizeOf(value: unknown, size: number): number {
  if (typeof value === 'string') return value.length;
  return typeof value === 'object' && value !== null ? size : 0;
}

type GrowingValue = string | unknown[];

function isGrowing(value: unknown): value is GrowingValue {
  return typeof value === 'string' || Array.isArray(value);
}

/** A list is extended in place: copied each time, a long one would cost the square of its length. */
function join(before: GrowingValue, after: GrowingValue): GrowingValue {
  if (typeof before === 'string' && typeof after === 'string') return before + after;
  const list = partsOf(before);
  for (const part of partsOf(after)) list.push(part);
  return list;
}

/** If a content is text at one time and a list of parts at another, the text becomes a part. */
function partsOf(value: GrowingValue): unknown[] {
  if (typeof value !== 'string') return value;
  return value === '' ? [] : [{ type: 'text', text: value }];
}
