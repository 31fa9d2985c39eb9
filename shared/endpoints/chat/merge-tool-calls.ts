import { isObject } from '../../is-object.ts';
import { BackendError } from '../answers/backend-error.ts';
import { type MergedDeltas, mergeDeltas } from '../choices/merge-deltas.ts';
import type { SizeBudget } from '../definition/answer-format.ts';

/** The tool calls of a message, joined from their parts by their index. */
export interface MergedToolCalls {
  add(parts: readonly unknown[], size: number): void;
  /** In the order of their indexes, without the indexes. Empty if there is no call. */
  toList(): Record<string, unknown>[];
}

type Part = Readonly<Record<string, unknown>>;
type Call = { index: number; fields: MergedDeltas; nested: Map<string, MergedDeltas> };

const callsMax = 128;

export function mergeToolCalls(budget: SizeBudget): MergedToolCalls {
  const calls: Call[] = [];
  // In a map by index: a list would be as long as the largest index that a backend sends.
  const latest = new Map<number, Call>();

  function callOf(part: Part): Call {
    const index = typeof part.index === 'number' ? part.index : (calls.at(-1)?.index ?? 0);
    const present = latest.get(index);
    if (present !== undefined && !isAnother(present, part)) return present;
    if (calls.length === callsMax)
      throw new BackendError('unreadable', `there are more than ${callsMax} calls of tools`);
    const call: Call = { index, fields: mergeDeltas(budget), nested: new Map() };
    calls.push(call);
    latest.set(index, call);
    return call;
  }

  function nestedOf({ fields, nested }: Call, name: string, size: number): MergedDeltas {
    const present = nested.get(name);
    if (present !== undefined) return present;
    const created = mergeDeltas(budget);
    nested.set(name, created);
    fields.replace(name, {}, size);
    return created;
  }

  function addPart(part: Part, size: number): void {
    const call = callOf(part);
    for (const [name, value] of Object.entries(part)) {
      if (name === 'index') continue;
      if (isObject(value)) extendFunction(nestedOf(call, name, size), value, size);
      // Some servers repeat the id and the type with each part, and some send them empty after the first.
      else if (value !== '' || call.fields.get(name) === undefined) call.fields.replace(name, value, size);
    }
  }

  return {
    add(parts, size) {
      for (const part of parts) if (isObject(part)) addPart(part, size);
    },
    toList: () => calls.toSorted((one, other) => one.index - other.index).map(toCall),
  };
}

/** Adds the fields of a called function to `fields`. Its name is never split, but its arguments are. */
export function extendFunction(fields: MergedDeltas, delta: Part, size: number): void {
  for (const [name, value] of Object.entries(delta)) {
    if (name !== 'name') fields.extend(name, value, size);
    else if (value !== '' || fields.get(name) === undefined) fields.replace(name, value, size);
  }
}

/**
 * If a server sends no index, or the same one for all calls, the next call begins with a function name: with another id or, without ids,
 * when the arguments of the present call are complete.
 */
function isAnother({ fields, nested }: Call, { id, function: called }: Part): boolean {
  if (!isObject(called) || typeof called.name !== 'string' || called.name === '') return false;
  const present = fields.get('id');
  if (typeof id === 'string' && id !== '' && present !== undefined) return id !== present;
  return isComplete(nested.get('function')?.get('arguments'));
}

/** Longer arguments are not checked, because each part would be parsed together with all earlier ones. */
const argumentsLengthMax = 4_096;

function isComplete(text: unknown): boolean {
  if (typeof text !== 'string' || text.length > argumentsLengthMax) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function toCall({ fields, nested }: Call): Record<string, unknown> {
  const objects = Array.from(nested, ([name, { toObject }]) => [name, toObject()]);
  return { ...(nested.has('function') && { type: 'function' }), ...fields.toObject(), ...Object.fromEntries(objects) };
}
