import type { TypedEvent } from '../answers/convert-events.ts';
import { type OutputItem, type TextKind, textMembers, type WrittenText } from './output-progress.ts';

type Json = Readonly<Record<string, unknown>>;

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
