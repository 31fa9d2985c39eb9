import { BackendError } from '../exchange/backend-error.ts';

/** Fields of an object that comes in parts. `size`: the characters of the event that the value came in. */
export interface MergedDeltas {
  get(name: string): unknown;
  /** What comes later stands; `null` says nothing where something was said. */
  replace(name: string, value: unknown, size: number): void;
  /** A text goes on, a list grows longer; anything else is replaced. */
  extend(name: string, value: unknown, size: number): void;
  toObject(): Record<string, unknown>;
}

/** What all the fields of an answer may keep together, in characters; `unreadable` beyond. */
export type SizeBudget = { spend(characters: number): void };

export function createSizeBudget(charactersMax: number): SizeBudget {
  let left = charactersMax;
  return {
    spend(characters) {
      left -= characters;
      if (left < 0) throw new BackendError('unreadable', `the answer is larger than ${charactersMax} characters`);
    },
  };
}

/** Memory that a part takes beside its text: a stream of empty or tiny parts is not without cost. */
const partCharacters = 16;

export function mergeDeltas(budget: SizeBudget): MergedDeltas {
  // A map, for what the names are is up to the backend: `__proto__` is a name like any other.
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
    // Most of what a chunk says beside its text is what the one before it said.
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

type Growing = string | unknown[];

function isGrowing(value: unknown): value is Growing {
  return typeof value === 'string' || Array.isArray(value);
}

/** A list that is at hand is made longer in place: copied each time, a long one would cost the square of its length. */
function join(before: Growing, after: Growing): Growing {
  if (typeof before === 'string' && typeof after === 'string') return before + after;
  const list = partsOf(before);
  for (const part of partsOf(after)) list.push(part);
  return list;
}

/** Of a content that is text at one time and a list of parts at another, the text is a part. */
function partsOf(value: Growing): unknown[] {
  if (typeof value !== 'string') return value;
  return value === '' ? [] : [{ type: 'text', text: value }];
}
