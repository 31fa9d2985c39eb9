import { isObject } from '../../is-object.ts';
import { isEncrypted, isWritten, writtenArguments } from './written-text.ts';

type Json = Readonly<Record<string, unknown>>;

const thoughts = /^(?:reasoning|thinking)/;

/** The length to which texts are cut so that all of them have `total`. */
export function longestWithin(lengths: readonly number[], total: number): number {
  let left = total;
  let texts = lengths.length;
  for (const length of lengths.toSorted((one, other) => one - other)) {
    if (length * texts >= left) return left / texts;
    left -= length;
    texts--;
  }
  return Number.POSITIVE_INFINITY;
}

type Budget = { left: number };

/** Cuts the texts in these fields to what is left of the budget in characters: reasoning first, then the others in their order. */
export function cutFields(fields: Json, budget: Budget): Record<string, unknown> {
  const names = Object.keys(fields).sort((one, other) => Number(thoughts.test(other)) - Number(thoughts.test(one)));
  const cut = new Map(names.map((name) => [name, cutField(name, fields[name], budget)]));
  // They repeat the text, token by token.
  if (budget.left <= 0 && Array.isArray(fields.logprobs)) cut.set('logprobs', []);
  return Object.fromEntries(Object.keys(fields).map((name) => [name, cut.get(name)]));
}

function cutField(name: string, value: unknown, budget: Budget): unknown {
  if (name === 'name' || !isWritten(name, value)) return value;
  const written = writtenArguments(name, value);
  if (written === undefined) return cutValue(value, budget);
  // A part of them would be other arguments.
  const isWithin = written.length <= budget.left;
  budget.left = isWithin ? budget.left - written.length : 0;
  return isWithin ? value : {};
}

function cutValue(value: unknown, budget: Budget): unknown {
  if (typeof value === 'string') {
    const kept = value.slice(0, budget.left);
    budget.left -= kept.length;
    // Drops half a surrogate pair.
    return kept.length < value.length ? kept.replace(/[\ud800-\udbff]$/, '') : kept;
  }
  if (Array.isArray(value)) return value.flatMap((item) => (budget.left > 0 ? [cutValue(item, budget)] : []));
  return isObject(value) && !isEncrypted(value) ? cutFields(value, budget) : value;
}

/** Cuts lists with an item for each token to this share. */
export function cutLists(fields: Json, share: number): Json {
  const cut = (value: unknown) => (Array.isArray(value) ? value.slice(0, Math.floor(value.length * share)) : value);
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, cut(value)]));
}
