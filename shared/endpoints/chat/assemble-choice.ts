import { isObject } from '../../json/json-values.ts';
import { withText } from '../answers/with-missing.ts';
import { type AssembledChoice, type MergedDeltas, mergeDeltas } from '../chat-stream/assemble-choices.ts';
import { createNumberedCalls } from '../chat-stream/number-tool-calls.ts';
import type { SizeBudget } from '../definition/answer-format.ts';

type Message = {
  fields: MergedDeltas;
  calls: MergedToolCalls;
  /** Undefined until there is one: a function call, as it was requested before tools existed. */
  call: MergedDeltas | undefined;
};

const joinedApart = new Set(['index', 'message', 'delta', 'logprobs', 'usage']);

/** Assembles a choice of a chat completion. */
export function createChatChoice(budget: SizeBudget): AssembledChoice {
  const fields = mergeDeltas(budget);
  const message: Message = { fields: mergeDeltas(budget), calls: mergeToolCalls(budget), call: undefined };
  let allLogprobs: MergedDeltas | undefined;

  return {
    add(part, size) {
      const { logprobs } = part;
      const delta = part.delta ?? part.message; // some servers send it as in a whole answer
      for (const name in part) {
        const value = part[name];
        // Some servers send an empty reason for none.
        if (name === 'finish_reason') fields.replace(name, value || null, size);
        else if (!joinedApart.has(name)) fields.replace(name, value, size);
      }
      if (isObject(logprobs)) {
        allLogprobs ??= mergeDeltas(budget);
        for (const name in logprobs) allLogprobs.extend(name, logprobs[name], size);
      }
      if (isObject(delta)) addToMessage(message, delta, { budget, size });
    },
    end: (reason) => fields.replace('finish_reason', reason, 0),
    toObject: () => ({
      message: presentMessage(message),
      logprobs: allLogprobs?.toObject() ?? null,
      finish_reason: null,
      ...fields.toObject(),
    }),
  };
}

type Room = { budget: SizeBudget; size: number };

function addToMessage(message: Message, delta: Readonly<Record<string, unknown>>, { budget, size }: Room): void {
  for (const name in delta) {
    const value = delta[name];
    if (name === 'tool_calls') {
      if (Array.isArray(value)) message.calls.add(value, size);
    } else if (name === 'function_call') {
      if (!isObject(value)) continue;
      message.call ??= mergeDeltas(budget);
      extendFunction(message.call, withText(value, 'arguments'), size);
    } else if (name === 'role') {
      if (value) message.fields.replace(name, value, size);
    } else {
      message.fields.extend(name, value, size);
    }
  }
}

function presentMessage({ fields, calls, call }: Message): Record<string, unknown> {
  const written = fields.toObject();
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

type Part = Readonly<Record<string, unknown>>;
type Call = { fields: MergedDeltas; nested: Map<string, MergedDeltas> };

/** The tool calls of a message, joined from their parts. */
function mergeToolCalls(budget: SizeBudget) {
  const calls: Call[] = [];
  // An id that is missing is added when the answer is presented.
  const numbered = createNumberedCalls(() => '', budget);

  function nestedOf({ fields, nested }: Call, name: string, size: number): MergedDeltas {
    const present = nested.get(name);
    if (present !== undefined) return present;
    const created = mergeDeltas(budget);
    nested.set(name, created);
    fields.replace(name, {}, size);
    return created;
  }

  function addPart({ index, ...part }: Part, size: number): void {
    const number = Number(index); // as it was numbered
    const call = calls[number] ?? { fields: mergeDeltas(budget), nested: new Map() };
    calls[number] = call;
    for (const [name, value] of Object.entries(part)) {
      if (isObject(value)) extendFunction(nestedOf(call, name, size), value, size);
      else call.fields.replace(name, value, size);
    }
  }

  return {
    /** Fails with `BackendError` if there are too many calls. */
    add(parts: readonly unknown[], size: number): void {
      for (const part of numbered.number(parts)) if (isObject(part)) addPart(part, size);
    },
    /** In the order of their beginnings, without numbers. Empty if there is no call. */
    toList: (): Record<string, unknown>[] => calls.map(toCall),
  };
}

type MergedToolCalls = ReturnType<typeof mergeToolCalls>;

/** Adds the fields of a called function to `fields`. Its name is never split, but its arguments are. */
function extendFunction(fields: MergedDeltas, delta: Part, size: number): void {
  for (const [name, value] of Object.entries(delta)) {
    if (name !== 'name') fields.extend(name, value, size);
    else if (value !== '' || fields.get(name) === undefined) fields.replace(name, value, size);
  }
}

function toCall({ fields, nested }: Call): Record<string, unknown> {
  const objects = Array.from(nested, ([name, { toObject }]) => [name, toObject()]);
  return { ...fields.toObject(), ...Object.fromEntries(objects) };
}
