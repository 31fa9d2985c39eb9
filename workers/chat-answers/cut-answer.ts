import { isObject } from '../../shared/is-object.ts';
import { type BackendAnswer, writtenText } from './convert-answer.ts';

type Json = Readonly<Record<string, unknown>>;

/** Fields that name a part of a message, and were not written by the model. */
const labels = new Set(['role', 'id', 'type', 'name', 'index']);
const thoughts = /^(?:reasoning|thinking)/;

/**
 * Returns this share of a whole answer. The longest choices are cut at their ends, so that no choice is cut while a longer one remains:
 * the model's reasoning comes first, then its text, then its tool calls. They end as a backend ends them at its limit.
 */
export function cutAnswer({ answer, usage }: BackendAnswer, shareOfAll: number): BackendAnswer {
  const lengths = answer.choices.map(({ message }) => writtenText(message).length);
  const longest = longestWithin(lengths, shareOfAll * lengths.reduce((sum, length) => sum + length, 0));
  const choices = answer.choices.map((choice, index) => {
    const written = lengths[index] ?? 0;
    if (written <= longest) return choice;
    const share = longest / written;
    const budget = { left: Math.floor(longest) };
    const { message = {}, logprobs } = choice;
    return {
      ...choice,
      message: cutFields(message, budget),
      ...(isObject(logprobs) && { logprobs: cutLists(logprobs, share) }),
      finish_reason: 'length',
    };
  });
  const cut = { ...answer, choices };
  return { text: JSON.stringify(cut), answer: cut, usage };
}

/** The length to which texts are cut so that all of them have `total`. */
function longestWithin(lengths: readonly number[], total: number): number {
  let left = total;
  let texts = lengths.length;
  for (const length of lengths.toSorted((one, other) => one - other)) {
    if (length * texts >= left) return left / texts;
    left -= length;
    texts--;
  }
  return Number.POSITIVE_INFINITY;
}

function cutFields(fields: Json, budget: { left: number }): Record<string, unknown> {
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

function cutLists(fields: Json, share: number): Json {
  const cut = (value: unknown) => (Array.isArray(value) ? value.slice(0, Math.floor(value.length * share)) : value);
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, cut(value)]));
}
