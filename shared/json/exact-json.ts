import { validationError } from '../errors.ts';
import { exceededJsonBound } from './json-bounds.ts';
import { mayBeInexact } from './may-be-inexact.ts';

/** A JSON object and its original text, or any text with the same numbers in it. */
export type SentJson = { value: object; text: string };

/** Returns the object with each number as it was written, so that a 64-bit seed reaches the backend as the client sent it. */
export function exactly({ value, text }: SentJson): object {
  return mayBeInexact(text) ? parseExactly(text) : value;
}

// TypeScript's library does not have types for this part of JSON yet (ECMAScript, "JSON.parse source text access").
const sourceAccess = JSON as unknown as {
  rawJSON: (text: string) => unknown;
  parse: (text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown) => object;
};

/** Each value costs a function call: two million of them took four seconds. */
const exactBounds = { commasMax: 50_000 };

/**
 * Parses the object in this text so that its numbers are serialized again as they were written. Fails with `VALIDATION_ERROR` if there are
 * too many values.
 */
export function parseExactly(text: string): object {
  const exceeded = exceededJsonBound(Buffer.from(text), exactBounds);
  if (exceeded !== undefined) {
    const message = `${exceeded} and a number of more than 15 digits`;
    throw validationError([{ path: 'body', message }]);
  }
  return sourceAccess.parse(text, (_key, item, { source }) =>
    typeof item === 'number' && source !== undefined ? sourceAccess.rawJSON(source) : item,
  );
}
