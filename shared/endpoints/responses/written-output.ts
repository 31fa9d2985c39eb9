import { isObject } from '../../json/json-values.ts';
import { ownText } from '../../json/texts.ts';
import type { TypedEvent } from '../answers/convert-events.ts';
import { writtenText } from '../answers/written-text.ts';
import type { SizeBudget } from '../definition/answer-format.ts';
import { kindOf, textMembers } from './output-progress.ts';

/** Members of items that name something, or that a tool has written. */
const besideText = new Set([
  ...['name', 'namespace', 'phase', 'server_label', 'container_id'],
  ...['tools', 'results', 'output', 'outputs'],
]);

/** What the model wrote in an output: its text, refusals, reasoning and tool calls. */
export function outputText(output: unknown): string {
  return Array.isArray(output) ? output.map(itemText).join('') : '';
}

function itemText(item: unknown): string {
  if (!isObject(item)) return '';
  return writtenText(Object.fromEntries(Object.entries(item).filter(([name]) => !besideText.has(name))));
}

/** Sound has no text; its transcript has events of its own. */
const textDelta = /(?<!audio)\.delta$/;

/** Characters written in one item, by the kind of event that had them, and how many of them were returned. */
type ItemLengths = { byEvent: Map<string, number>; returned: number };

/** Memory of an item. */
const itemCharacters = 1_024;

/**
 * Finds what the model wrote in each event of a streamed response. A text may come piece by piece, whole when it is done, in its part, in
 * its item, in the response, or in several of these. It is returned once, as soon as it comes.
 */
export function createWrittenOutput(budget: SizeBudget) {
  const items = new Map<number, ItemLengths>();
  let returned = 0;

  function itemAt(index: unknown): ItemLengths {
    // Some servers number no items.
    const key = typeof index === 'number' ? index : -1;
    const known = items.get(key);
    if (known !== undefined) return known;
    budget.spend(itemCharacters);
    const item = { byEvent: new Map<string, number>(), returned: 0 };
    items.set(key, item);
    return item;
  }

  /** Returns what goes beyond the texts that other kinds of events have brought. */
  function beyondOthers(index: unknown, kind: string, text: string): string {
    if (text === '') return '';
    const item = itemAt(index);
    const length = (item.byEvent.get(kind) ?? 0) + text.length;
    item.byEvent.set(kind, length);
    const more = Math.max(0, length - item.returned);
    item.returned += more;
    returned += more;
    return lastOf(text, more);
  }

  function beyondItems(output: unknown): string {
    const text = outputText(output);
    const more = Math.max(0, text.length - returned);
    returned += more;
    return lastOf(text, more);
  }

  return {
    take({ type, output_index: index, ...event }: TypedEvent): string {
      const { delta, item, part, response } = event;
      const kind = kindOf(type);
      const stage = type.endsWith('.done') ? 'done' : 'added';
      const whole = kind !== undefined && stage === 'done' ? event[textMembers[kind]] : undefined;
      return (
        (typeof delta === 'string' && textDelta.test(type) ? beyondOthers(index, 'delta', delta) : '') +
        (typeof whole === 'string' ? beyondOthers(index, 'done', whole) : '') +
        (isObject(part) ? beyondOthers(index, `part ${stage}`, writtenText(part)) : '') +
        (isObject(item) ? beyondOthers(index, `item ${stage}`, itemText(item)) : '') +
        (isObject(response) ? beyondItems(response.output) : '')
      );
    },
  };
}

/** A slice would keep the complete text in memory. */
function lastOf(text: string, characters: number): string {
  if (characters >= text.length) return text;
  return characters === 0 ? '' : ownText(text.slice(-characters));
}
