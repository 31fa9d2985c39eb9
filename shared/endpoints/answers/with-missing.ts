import { z } from 'zod';
import { isObject, type Json } from '../../json/json-values.ts';

/**
 * Returns the object with these properties where it lacks them: the object itself if it has all. Null is a value only where it also stands
 * for a missing one (contract.md#ms9-what-is-skipped).
 */
export function withMissing<T extends Json>(value: T, required: Json): T {
  for (const name in required) if (lacks(value, required, name)) return filled(value, required);
  return value;
}

function filled<T extends Json>(value: T, required: Json): T {
  const missing = Object.entries(required).filter(([name]) => lacks(value, required, name));
  return { ...required, ...value, ...Object.fromEntries(missing) };
}

function lacks(value: Json, required: Json, name: string): boolean {
  return value[name] === undefined || (value[name] === null && required[name] !== null);
}

/** Returns the list with each item changed: the list itself if no item changes. */
export function mapped<T>(list: readonly T[], change: (item: T, index: number) => T): readonly T[] {
  const changed = list.map(change);
  return changed.every((item, index) => item === list[index]) ? list : changed;
}

/** Returns the object with this field as a text: JSON of any other value. */
export function withText<T extends Json>(value: T, field: string): T {
  const { [field]: given } = value;
  return given == null || typeof given === 'string' ? value : { ...value, [field]: JSON.stringify(given) };
}

/**
 * Returns an answer with the client's name of the model. The rest of its text stays as the backend wrote it, because an answer can have
 * millions of numbers.
 */
export function withModel(
  { text, answer }: { text: string; answer: { model?: string | null | undefined } },
  model: string,
): string {
  if (answer.model === model) return text;
  // A quote inside of a string is escaped, so this is never a part of one.
  const name = JSON.stringify(answer.model ?? '').replace(/[^\w\s]/g, '\\$&');
  const parts = text.split(new RegExp(`"model"\\s*:\\s*${name}`));
  return parts.length === 2 ? parts.join(`"model":${JSON.stringify(model)}`) : JSON.stringify({ ...answer, model });
}

/** A longer id is left out of usage records, in which it is looked up. */
const lengthMax = 200;

/** Returns the id in an answer of a backend. Undefined if it has none, and the client gets one that is made of the request's id. */
export function answerIdIn(answer: unknown): string | undefined {
  const id = isObject(answer) ? answer.id : undefined;
  return typeof id === 'string' && id !== '' && id.length <= lengthMax ? id : undefined;
}

/** No request has this many tokens; a larger count is invalid. */
const tokensMax = 1_000_000_000;

/** A count of tokens in a backend's usage. */
export const reportedTokens = z.int().nonnegative().max(tokensMax);

/** Returns a count of tokens in a backend's usage. Undefined for any other value. */
export function tokensIn(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= tokensMax
    ? value
    : undefined;
}
