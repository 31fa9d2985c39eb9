import { isObject } from '../../is-object.ts';
import type { TypedEvent } from '../answers/convert-events.ts';
import { charactersMax, createSizeBudget } from '../answers/size-budget.ts';

type Json = Readonly<Record<string, unknown>>;

/** A text of an item that is written piece by piece. `place`: where its events say that it is. */
export type OpenText = { kind: TextKind; place: Json; text: string };

/** An item of the output. `texts` are those that have begun, by their place. */
export type OutputItem = { index: number; item: Json; isDone: boolean; texts: Map<string, OpenText> };

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

/**
 * Follows the output of a response, so that it can be ended early. Each event counts when the next one comes, because the latest one may not
 * be sent.
 */
export function createOutputProgress() {
  const budget = createSizeBudget(charactersMax);
  const items = new Map<number, OutputItem>();
  let pending: TypedEvent | undefined;

  function apply(event: TypedEvent): void {
    const { type, output_index: index, item } = event;
    if (typeof index !== 'number') return;
    if (type === 'response.output_item.added' || type === 'response.output_item.done') {
      if (!isObject(item)) return;
      const isDone = type === 'response.output_item.done';
      items.set(index, { index, item, isDone, texts: items.get(index)?.texts ?? new Map() });
      return;
    }
    const kind = kindOf(type);
    if (kind !== undefined) extend(items.get(index), kind, event);
  }

  function extend(item: OutputItem | undefined, kind: TextKind, event: TypedEvent): void {
    const { item_id, output_index, content_index, summary_index, delta, type } = event;
    const place = { item_id, output_index, content_index, summary_index };
    const key = `${kind} ${content_index} ${summary_index}`;
    const known = item?.texts.get(key);
    if (type.endsWith('.done')) {
      item?.texts.delete(key);
    } else if (typeof delta === 'string') {
      budget.spend(delta.length);
      if (known !== undefined) known.text += delta;
      else item?.texts.set(key, { kind, place, text: delta });
    }
  }

  return {
    take(event: TypedEvent): void {
      if (pending !== undefined) apply(pending);
      pending = event;
    },
    /** In the order of their indexes. */
    items: (): OutputItem[] => [...items.values()].sort((one, other) => one.index - other.index),
  };
}

function kindOf(type: string): TextKind | undefined {
  const kind = type.replace(/\.(?:delta|done)$/, '');
  return kind !== type && kind in textMembers ? (kind as TextKind) : undefined; // it is one of the keys
}
