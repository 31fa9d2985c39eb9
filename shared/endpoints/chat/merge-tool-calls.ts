import { isObject } from '../../is-object.ts';
import { type MergedDeltas, mergeDeltas } from '../choices/merge-deltas.ts';
import { createNumberedCalls } from '../choices/number-tool-calls.ts';
import type { SizeBudget } from '../definition/answer-format.ts';

type Part = Readonly<Record<string, unknown>>;
type Call = { fields: MergedDeltas; nested: Map<string, MergedDeltas> };

/** The tool calls of a message, joined from their parts. */
export function mergeToolCalls(budget: SizeBudget) {
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

export type MergedToolCalls = ReturnType<typeof mergeToolCalls>;

/** Adds the fields of a called function to `fields`. Its name is never split, but its arguments are. */
export function extendFunction(fields: MergedDeltas, delta: Part, size: number): void {
  for (const [name, value] of Object.entries(delta)) {
    if (name !== 'name') fields.extend(name, value, size);
    else if (value !== '' || fields.get(name) === undefined) fields.replace(name, value, size);
  }
}

function toCall({ fields, nested }: Call): Record<string, unknown> {
  const objects = Array.from(nested, ([name, { toObject }]) => [name, toObject()]);
  return { ...fields.toObject(), ...Object.fromEntries(objects) };
}
