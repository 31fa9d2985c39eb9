import { z } from 'zod';

/** An object of parsed JSON. */
export type Json = Readonly<Record<string, unknown>>;

/** Returns whether a parsed JSON value is an object, and not an array or `null`. */
export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** V8 copies a slice shorter than this; a longer slice keeps the original string in memory. */
const sharedLengthMin = 13;

/** Copies a part of a large text, so that the large text is not kept in memory with it. A lone surrogate becomes U+FFFD. */
export function ownText(text: string): string {
  return text.length < sharedLengthMin ? text : Buffer.from(text).toString();
}

/** Cuts a text that is longer than `lengthMax`. An ellipsis shows that something is missing. */
export function shorten(text: string, lengthMax: number): string {
  return text.length > lengthMax ? `${text.slice(0, lengthMax)}…` : text;
}

/** MongoDB stores dates as dates; SQLite stores documents as JSON, with dates as text. */
export const storedDate = z.date().or(z.iso.datetime().transform((text) => new Date(text)));

/** JSON as text: for a column of text, or for data that must not become fields of the document. */
export const storedJson = z.string().transform((text, context): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    context.addIssue('not JSON');
    return z.NEVER;
  }
});
