import { type BackendAnswer, writtenText } from './convert-answer.ts';

type Json = Readonly<Record<string, unknown>>;

/** What names a part of a message, and was not written by the model. */
const labels = new Set(['role', 'id', 'type', 'name', 'index']);
const thoughts = /^(?:reasoning|thinking)/;

/**
 * The beginning of a whole answer, this share of each choice: what the model thought, then what it said, then calls of tools, ended as a
 * backend would have ended it at its limit.
 */
export function cutAnswer({ answer, usage }: BackendAnswer, share: number): BackendAnswer {
  const choices = answer.choices.map((choice) => {
    const written = writtenText(choice.message).length;
    const budget = { left: Math.floor(written * share) };
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

function cutFields(fields: Json, budget: { left: number }): Record<string, unknown> {
  const names = Object.keys(fields).sort((one, other) => Number(thoughts.test(other)) - Number(thoughts.test(one)));
  const cut = new Map(names.map((name) => [name, labels.has(name) ? fields[name] : cutValue(fields[name], budget)]));
  return Object.fromEntries(Object.keys(fields).map((name) => [name, cut.get(name)]));
}

function cutValue(value: unknown, budget: { left: number }): unknown {
  if (typeof value === 'string') {
    const kept = value.slice(0, budget.left);
    budget.left -= kept.length;
    // Half a character is none.
    return kept.length < value.length ? kept.replace(/[\ud800-\udbff]$/, '') : kept;
  }
  if (Array.isArray(value)) return value.flatMap((item) => (budget.left > 0 ? [cutValue(item, budget)] : []));
  return isObject(value) ? cutFields(value, budget) : value;
}

function cutLists(fields: Json, share: number): Json {
  const cut = (value: unknown) => (Array.isArray(value) ? value.slice(0, Math.floor(value.length * share)) : value);
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, cut(value)]));
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
