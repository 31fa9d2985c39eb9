import type { SizeBudget } from '../definition/answer-format.ts';

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
