import { isObject } from '../../json/json-values.ts';
import type { TypedEvent } from '../answers/convert-events.ts';
import type { SizeBudget } from '../definition/answer-format.ts';
import { kindOf } from './output-progress.ts';

type PartNumber = 'content_index' | 'summary_index';
type Item = { id: unknown } & Partial<Record<PartNumber, Order>>;

/** Memory of an item besides its id. */
const itemCharacters = 256;
/** A larger number is none: what is numbered is kept in memory. */
const numbersMax = 1_000_000;

/**
 * Gives the events of a response the numbers of their item and of its part where these are missing: by the id of the item, or else by their
 * order (contract.md#ms12-tool-calls-and-lists). SDKs find items by their numbers alone.
 */
export function createOutputNumbers(budget: SizeBudget) {
  const items = new Map<number, Item>();
  const indexes = new Map<unknown, number>();
  const order = createOrder();

  function indexOf({ type, output_index: given, item, item_id }: TypedEvent): number {
    const known = isNumber(given) ? given : indexes.get(isObject(item) ? item.id : item_id);
    if (known !== undefined) return known;
    if (!isObject(item)) return order.latest();
    const isNew = type === 'response.output_item.added' || typeof item.id === 'string';
    return isNew ? order.begin() : order.end();
  }

  function itemAt(index: number, given: unknown): Item {
    const id = typeof given === 'string' && given !== '' ? given : `item_${index}`;
    const known = items.get(index);
    if (known !== undefined && indexes.has(id)) return known;
    budget.spend(itemCharacters + id.length);
    indexes.set(id, index);
    order.passed(index);
    const item = known ?? { id };
    items.set(index, item);
    return item;
  }

  return {
    /** Returns the event itself if it lacks none. */
    number(event: TypedEvent): TypedEvent {
      const { type, output_index, item, item_id } = event;
      const name = partNumberOf(type);
      const lacksPart = name !== undefined && !isNumber(event[name]);
      if (isNumber(output_index) && !lacksPart && item === undefined && item_id !== undefined) return event;
      const isOfItem =
        name !== undefined || isObject(item) || typeof item_id === 'string' || kindOf(type) !== undefined;
      if (!isOfItem) return event;
      const index = indexOf(event);
      const known = itemAt(index, isObject(item) ? item.id : item_id);
      const place = {
        ...(output_index !== index && { output_index: index }),
        ...(lacksPart && { [name]: partOf(known, name, type) }),
        ...(!isObject(item) && item_id === undefined && { item_id: known.id }),
      };
      return Object.keys(place).length === 0 ? event : { ...event, ...place };
    },
    /** Returns these items in the order of their numbers: the list itself if they are. */
    inOrder(output: readonly unknown[]): readonly unknown[] {
      const numbers = output.map((item) => (isObject(item) ? indexes.get(item.id) : undefined));
      const isOrdered = numbers.every((number, at) => number !== undefined && number >= (numbers[at - 1] ?? 0));
      if (isOrdered || numbers.includes(undefined)) return output;
      const numbered = output.map((item, at) => ({ item, number: Number(numbers[at]) }));
      return numbered.toSorted((one, other) => one.number - other.number).map(({ item }) => item);
    },
  };
}

function partOf(item: Item, name: PartNumber, type: string): number {
  const order = item[name] ?? createOrder();
  item[name] = order;
  if (type.endsWith('_part.added')) return order.begin();
  if (type.endsWith('_part.done')) return order.end();
  return type.endsWith('.done') ? order.oldest() : order.latest();
}

const contentEvent = /^response\.(?:content_part|output_text|refusal|reasoning_text)\./;
const summaryEvent = /^response\.reasoning_summary_(?:part|text)\./;

function partNumberOf(type: string): PartNumber | undefined {
  if (contentEvent.test(type)) return 'content_index';
  return summaryEvent.test(type) ? 'summary_index' : undefined;
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= numbersMax;
}

type Order = ReturnType<typeof createOrder>;

/** Numbers what begins, and ends in the same order. */
function createOrder() {
  let begun = 0;
  let ended = 0;
  const latest = () => Math.max(0, begun - 1);
  return {
    latest,
    /** The first one that has not ended. */
    oldest: () => Math.min(ended, latest()),
    begin: () => begun++,
    end(): number {
      begun = Math.max(begun, ended + 1);
      return ended++;
    },
    /** Numbers after this one are free. */
    passed(number: number): void {
      begun = Math.max(begun, number + 1);
    },
  };
}
