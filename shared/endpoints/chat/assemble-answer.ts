import { isObject } from '../../is-object.ts';
import { charactersMax, createSizeBudget, type SizeBudget } from '../answers/size-budget.ts';
import type { Chunk } from '../choices/choices-schemas.ts';
import type { BackendAnswer } from '../choices/convert-answer.ts';
import { createAnswerProgress } from '../choices/follow-answer.ts';
import { parseChunk } from '../choices/parse-chunk.ts';
import { type AnswerAssembler, nothingWritten, type StreamOptions } from '../definition/answer-format.ts';
import { choicesMax } from '../fields/output-limit.ts';
import { type MergedDeltas, mergeDeltas } from './merge-deltas.ts';
import { extendFunction, type MergedToolCalls, mergeToolCalls } from './merge-tool-calls.ts';

type Choice = {
  fields: MergedDeltas;
  message: MergedDeltas;
  calls: MergedToolCalls;
  /** Undefined until there is one. `call`: a function call, as it was requested before tools existed. */
  call: MergedDeltas | undefined;
  logprobs: MergedDeltas | undefined;
};
type ChunkChoice = Chunk['choices'][number];

/** Fields that are written below, kept separately (`usage`), or without meaning in a whole answer: OpenAI pads its chunks. */
const notKept = new Set(['object', 'model', 'choices', 'usage', 'error', 'obfuscation']);

const joinedApart = new Set(['index', 'message', 'delta', 'logprobs']);

/** Assembles a chat completion. */
export function createAnswerAssembler({
  model,
  relay,
}: StreamOptions): Omit<AnswerAssembler, 'answer'> & { answer(): BackendAnswer } {
  const progress = createAnswerProgress(choicesMax);
  const budget = createSizeBudget(charactersMax);
  const head = mergeDeltas(budget);
  const choices = new Map<number, Choice>();
  let latestWritten = nothingWritten;

  function choiceOf(index: number): Choice {
    const present = choices.get(index);
    if (present !== undefined) return present;
    const created = createChoice(budget);
    choices.set(index, created);
    return created;
  }

  return {
    take(data) {
      latestWritten = nothingWritten;
      if (data === '[DONE]') return progress.finish();
      const chunk = parseChunk(data, relay);
      latestWritten = progress.follow(chunk);
      for (const name in chunk) if (!notKept.has(name)) head.replace(name, chunk[name], data.length);
      const size = data.length / Math.max(1, chunk.choices.length);
      for (const part of chunk.choices) addToChoice(choiceOf(part.index), part, { budget, size });
    },
    written: () => latestWritten,
    cut(choicesAsked) {
      for (const index of progress.unfinished(choicesAsked))
        choiceOf(index).fields.replace('finish_reason', 'length', 0);
    },
    begun: progress.begun,
    complete: progress.complete,
    answer() {
      const inOrder = Array.from(choices).toSorted(([one], [other]) => one - other);
      const answer = {
        ...head.toObject(),
        object: 'chat.completion',
        model,
        choices: inOrder.map(([index, choice]) => presentChoice(index, choice)),
        ...(progress.usage() !== undefined && { usage: progress.reportedUsage() }),
      };
      return { text: JSON.stringify(answer), answer, usage: progress.usage() };
    },
  };
}

function createChoice(budget: SizeBudget): Choice {
  return {
    fields: mergeDeltas(budget),
    message: mergeDeltas(budget),
    calls: mergeToolCalls(budget),
    call: undefined,
    logprobs: undefined,
  };
}

type Room = { budget: SizeBudget; size: number };

function addToChoice(choice: Choice, part: ChunkChoice, room: Room): void {
  const { logprobs } = part;
  const delta = part.delta ?? part.message; // some servers send it as in a whole answer
  const { budget, size } = room;
  for (const name in part) {
    const value = part[name];
    // Some servers send an empty reason for none.
    if (name === 'finish_reason') choice.fields.replace(name, value || null, size);
    else if (!joinedApart.has(name)) choice.fields.replace(name, value, size);
  }
  if (isObject(logprobs)) {
    choice.logprobs ??= mergeDeltas(budget);
    for (const name in logprobs) choice.logprobs.extend(name, logprobs[name], size);
  }
  if (isObject(delta)) addToMessage(choice, delta, room);
}

function addToMessage(choice: Choice, delta: Readonly<Record<string, unknown>>, { budget, size }: Room): void {
  for (const name in delta) {
    const value = delta[name];
    if (name === 'tool_calls') {
      if (Array.isArray(value)) choice.calls.add(value, size);
    } else if (name === 'function_call') {
      if (!isObject(value)) continue;
      choice.call ??= mergeDeltas(budget);
      extendFunction(choice.call, value, size);
    } else if (name === 'role') {
      if (value) choice.message.replace(name, value, size);
    } else {
      choice.message.extend(name, value, size);
    }
  }
}

function presentChoice(index: number, choice: Choice): { message: Record<string, unknown>; [name: string]: unknown } {
  return {
    index,
    message: presentMessage(choice),
    logprobs: choice.logprobs?.toObject() ?? null,
    finish_reason: null,
    ...choice.fields.toObject(),
  };
}

function presentMessage({ message, calls, call }: Choice): Record<string, unknown> {
  const written = message.toObject();
  const called = calls.toList();
  // Streams start every message with an empty text. In a whole answer, a message that only calls or refuses has no text.
  const isTextless = called.length > 0 || call !== undefined || typeof written.refusal === 'string';
  return {
    role: 'assistant',
    refusal: null,
    ...written,
    content: (isTextless ? written.content || null : written.content) ?? null,
    ...(called.length > 0 && { tool_calls: called }),
    ...(call !== undefined && { function_call: call.toObject() }),
  };
}
