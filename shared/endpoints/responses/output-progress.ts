import { isObject, type Json } from '../../json/json-values.ts';
import type { TypedEvent } from '../answers/convert-events.ts';
import type { SizeBudget } from '../definition/answer-format.ts';

/**
 * A text of an item that is written piece by piece. `place`: where its events say that it is. `isDone` and `isPartDone`: whether the events
 * that end the text, and the part that has it, have come.
 */
type WrittenText = {
  kind: TextKind;
  place: Json;
  text: string;
  annotations: unknown[];
  isDone: boolean;
  isPartDone: boolean;
};

/** An item of the output. `texts` are those that have begun, by their place. */
type OutputItem = { index: number; item: Json; isDone: boolean; texts: Map<string, WrittenText> };

/** By the type of their events without `.delta`. */
export type TextKind =
  | 'response.output_text'
  | 'response.refusal'
  | 'response.reasoning_text'
  | 'response.reasoning_summary_text'
  | 'response.function_call_arguments'
  | 'response.custom_tool_call_input';

/** The member of the event `.done`, and of the part or the item, that has the text. */
export const textMembers: Readonly<Record<TextKind, string>> = {
  'response.output_text': 'text',
  'response.refusal': 'refusal',
  'response.reasoning_text': 'text',
  'response.reasoning_summary_text': 'text',
  'response.function_call_arguments': 'arguments',
  'response.custom_tool_call_input': 'input',
};

/** By the type of a part: the text that it has. */
const kindsOfParts: ReadonlyMap<unknown, TextKind> = new Map([
  ['output_text', 'response.output_text'],
  ['refusal', 'response.refusal'],
  ['reasoning_text', 'response.reasoning_text'],
  ['summary_text', 'response.reasoning_summary_text'],
]);

/** Memory of an annotation besides its text. */
const annotationCharacters = 64;

/**
 * Follows the output of a response, so that it can be ended early. Each event counts when the next one comes, because the latest one may
 * not be sent.
 */
export function createOutputProgress(budget: SizeBudget) {
  const items = new Map<number, OutputItem>();
  let pending: TypedEvent | undefined;

  function apply(event: TypedEvent): void {
    const { type, output_index: index, item, part, annotation } = event;
    if (typeof index !== 'number') return;
    if (type === 'response.output_item.added' || type === 'response.output_item.done') {
      if (!isObject(item)) return;
      budget.spend(JSON.stringify(item).length);
      const isDone = type === 'response.output_item.done';
      items.set(index, { index, item, isDone, texts: items.get(index)?.texts ?? new Map() });
      return;
    }
    if (type === 'response.output_text.annotation.added' && isObject(annotation)) {
      budget.spend(annotationCharacters + JSON.stringify(annotation).length);
      textAt(items.get(index), 'response.output_text', event)?.annotations.push(annotation);
      return;
    }
    const isPart = isObject(part) && partEvent.test(type);
    const kind = isPart ? kindsOfParts.get(part.type) : kindOf(type);
    const text = kind && textAt(items.get(index), kind, event);
    if (text === undefined) return;
    if (isPart) text.isPartDone = type.endsWith('.done');
    else extend(text, event);
  }

  function textAt(item: OutputItem | undefined, kind: TextKind, event: TypedEvent): WrittenText | undefined {
    const { item_id, output_index, content_index, summary_index } = event;
    const key = `${kind} ${content_index} ${summary_index}`;
    const known = item?.texts.get(key);
    if (known !== undefined || item === undefined) return known;
    const place = { item_id, output_index, content_index, summary_index };
    budget.spend(key.length + JSON.stringify(place).length);
    const text = { kind, place, text: '', annotations: [], isDone: false, isPartDone: false };
    item.texts.set(key, text);
    return text;
  }

  function extend(text: WrittenText, event: TypedEvent): void {
    const { delta, type, [textMembers[text.kind]]: whole } = event;
    if (type.endsWith('.done')) {
      text.isDone = true;
      if (typeof whole !== 'string') return;
      budget.spend(Math.max(0, whole.length - text.text.length));
      text.text = whole;
    } else if (typeof delta === 'string') {
      budget.spend(delta.length);
      text.text += delta;
    }
  }

  return {
    take(event: TypedEvent): void {
      if (pending !== undefined) apply(pending);
      pending = event;
    },
    /** In the order of their indexes. */
    items: (): OutputItem[] => [...items.values()].sort((one, other) => one.index - other.index),
    /** The name of the tool that an item calls. */
    nameAt: (index: unknown): unknown => items.get(Number(index))?.item.name,
  };
}

const partEvent = /^response\.(?:content|reasoning_summary)_part\.(?:added|done)$/;

/** The kind of the text in an event. */
export function kindOf(type: string): TextKind | undefined {
  const kind = type.replace(/\.(?:delta|done)$/, '');
  return kind !== type && Object.hasOwn(textMembers, kind) ? (kind as TextKind) : undefined; // it is one of the keys
}

/** The type of a part, and the events that end it. Arguments are no part, but a member of their item. */
const parts: Partial<Record<TextKind, { type: string; done: string; list: 'content' | 'summary' }>> = {
  'response.output_text': { type: 'output_text', done: 'response.content_part.done', list: 'content' },
  'response.refusal': { type: 'refusal', done: 'response.content_part.done', list: 'content' },
  'response.reasoning_text': { type: 'reasoning_text', done: 'response.content_part.done', list: 'content' },
  'response.reasoning_summary_text': {
    type: 'summary_text',
    done: 'response.reasoning_summary_part.done',
    list: 'summary',
  },
};

type ClosedOutput = { events: TypedEvent[]; output: Json[] };

/** Ends the open items of an output with this status. Returns the events for that, and all items as they are then. */
export function closeOutput(items: readonly OutputItem[], status: 'completed' | 'incomplete'): ClosedOutput {
  const events: TypedEvent[] = [];
  const output = items.map((open) => {
    if (open.isDone) return open.item;
    const item = endedItem(open, status);
    for (const text of open.texts.values()) events.push(...endOfText(text, item));
    events.push({ type: 'response.output_item.done', output_index: open.index, item });
    return item;
  });
  return { events, output };
}

function endedItem({ item, texts }: OutputItem, status: string): Json & { name?: unknown } {
  const lists: { content?: Json[]; summary?: Json[] } = {};
  const members: Record<string, string> = {};
  for (const text of texts.values()) {
    const { kind } = text;
    const part = parts[kind];
    if (part === undefined) {
      members[textMembers[kind]] = text.text;
      continue;
    }
    const list = lists[part.list] ?? [];
    list.push(partOf(text));
    lists[part.list] = list;
  }
  return { ...item, ...lists, ...members, status };
}

function partOf({ kind, text, annotations }: WrittenText): Json {
  const more = kind === 'response.output_text' ? { annotations, logprobs: [] } : {};
  return { type: parts[kind]?.type, [textMembers[kind]]: text, ...more };
}

function endOfText(written: WrittenText, { name }: { name?: unknown }): TypedEvent[] {
  const { kind, place, text, isDone, isPartDone } = written;
  const logprobs = kind === 'response.output_text' ? { logprobs: [] } : {};
  const named = kind === 'response.function_call_arguments' ? { name } : {};
  const done = { type: `${kind}.done`, ...place, [textMembers[kind]]: text, ...logprobs, ...named };
  const part = parts[kind];
  const partDone = part && { type: part.done, ...place, part: partOf(written) };
  return [...(isDone ? [] : [done]), ...(isPartDone || partDone === undefined ? [] : [partDone])];
}
