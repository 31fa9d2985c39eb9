import { validationError } from '../errors.ts';
import { exceededJsonBound } from './json-bounds.ts';

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

/**
 * Returns whether this JSON may have a number that `JSON.parse` changes: one with more digits than a JavaScript number keeps, or with an
 * exponent out of range. Digits in strings count as well. Four megabytes take a few milliseconds, for any content.
 */
export function mayBeInexact(text: string): boolean {
  return hasLongNumber(text) || largeExponent.test(text);
}

const largeExponent = /[eE](?<=\d[eE])[+-]?\d{3}/;
const longNumber = 16;

/** Returns whether a digit is followed by 15 digits or points. Every such run includes at least one of the positions that are checked. */
function hasLongNumber(text: string): boolean {
  for (let at = longNumber - 1; at < text.length; at += longNumber) {
    if (!isDigit(text, at) && !isPoint(text, at)) continue;
    let from = at;
    while (isDigit(text, from - 1) || isPoint(text, from - 1)) from--;
    while (isDigit(text, at + 1) || isPoint(text, at + 1)) at++;
    while (isPoint(text, from)) from++;
    if (at - from >= longNumber - 1) return true;
  }
  return false;
}

function isDigit(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  return unit >= 0x30 && unit <= 0x39;
}

function isPoint(text: string, at: number): boolean {
  return text.charCodeAt(at) === 0x2e;
}

/** The escape of a surrogate, alone or as a pair. */
const surrogates = /\\u[dD](?:[89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|[89a-fA-F][\da-fA-F]{2})/g;
const pairLength = 12;
const replacement = '\\ufffd';
/** Far more than texts that were cut in a character have. Replacing millions of them would block the process for half a second. */
const halvesMax = 10_000;

/**
 * Returns the same JSON with U+FFFD for each half of a surrogate pair without its other half, in values and in names: model servers refuse
 * such text, or fail on it. UTF-8 has no such halves, so they can only be escapes, and a body without any costs one search. Fails with
 * `VALIDATION_ERROR` if there are more than 10,000.
 */
export function wellFormedJson(sent: SentJson): SentJson {
  const text = withWholeCharacters(sent.text);
  if (text === sent.text) return sent;
  // The value may be a part of the text. Its own text has halves as escapes, too.
  return { text, value: JSON.parse(withWholeCharacters(JSON.stringify(sent.value))) };
}

function withWholeCharacters(json: string): string {
  const pieces: string[] = [];
  let copied = 0;
  surrogates.lastIndex = 0;
  for (let found = surrogates.exec(json); found !== null; found = surrogates.exec(json)) {
    const { index, 0: written } = found;
    if (isEscaped(json, index)) {
      // The backslash is itself escaped, and the second half of the pair may be an escape of its own.
      surrogates.lastIndex = index + 1;
    } else if (written.length < pairLength) {
      if (pieces.length >= 2 * halvesMax) {
        throw validationError([{ path: 'body', message: `has more than ${halvesMax} halves of characters` }]);
      }
      pieces.push(json.slice(copied, index), replacement);
      copied = index + written.length;
    }
  }
  return copied === 0 ? json : pieces.join('') + json.slice(copied);
}

/** Whether an odd number of backslashes stands before this place. */
function isEscaped(json: string, index: number): boolean {
  let first = index;
  while (json.charCodeAt(first - 1) === 0x5c) first--;
  return (index - first) % 2 === 1;
}
