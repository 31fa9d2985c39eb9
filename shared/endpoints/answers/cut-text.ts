import { isObject } from '../../is-object.ts';

type Json = Readonly<Record<string, unknown>>;

/** Fields that name a part of a message, and were not written by the model. */
const labels = new Set(['role', 'id', 'type', 'name', 'index', 'call_id', 'status', 'signature']);
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

/** Cuts the texts in these fields to what is left of the budget in characters: reasoning first, then the others in their order. */
export function cutFields(fields: Json, budget: { left: number }): Record<string, unknown> {
  const names = Object.keys(fields).sort((one, other) => Number(thoughts.test(other)) - Number(thoughts.test(one)));
  const cut = new Map(names.map((name) => [name, labels.has(name) ? fields[name] : cutValue(fields[name], budget)]));
  return Object.fromEntries(Object.keys(fields).map((name) => [name, cut.get(name)]));
}

function cutValue(value: unknown, budget: { left: number }): unknown {
  if (typeof value === 'string') {
    const kept = value.slice(0, budget.left);
    budget.left -= kept.length;
    // Drops half a surrogate pair.
    return kept.length < value.length ? kept.replace(/[\ud800-\udbff]$/, '') : kept;
  }
  if (Array.isArray(value)) return value.flatMap((item) => (budget.left > 0 ? [cutValue(item, budget)] : []));
  return isObject(value) ? cutFields(value, budget) : value;
}

/** Cuts lists with an item for each token to this share. */
export function cutLists(fields: Json, share: number): Json {
  const cut = (value: unknown) => (Array.isArray(value) ? value.slice(0, Math.floor(value.length * share)) : value);
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, cut(value)]));
}
