import { z } from 'zod';
import { ApiError, validationError, validationIssuesOf } from '../../shared/errors.ts';
import { exceededJsonBound } from '../../shared/json/json-bounds.ts';
import { isObject } from '../../shared/json/json-values.ts';
import { shorten, shownName } from '../../shared/json/texts.ts';

/** A JSON object from a client: its value and its original text. */
export type JsonBody = { value: object; text: string };

/** Parses a JSON object from UTF-8 bytes. Fails with `VALIDATION_ERROR` for anything else, and beyond the bounds of JSON. */
export function parseJsonBody(bytes: Uint8Array): JsonBody {
  const exceeded = exceededJsonBound(bytes);
  if (exceeded !== undefined) throw validationError([{ path: 'body', message: exceeded }]);
  const text = decodeUtf8(bytes);
  return { text, value: parseObject(text) };
}

/** Parses the body by this schema; fails like `parseFields`. */
export function parseBody<Schema extends z.ZodType>(schema: Schema, { value }: JsonBody): z.infer<Schema> {
  return parseFields(schema, value);
}

/**
 * Parses a value from a client by this schema. Null is absent in an optional field, unless it is a value there
 * (contract.md#d14-null-and-half-characters). Fails with `VALIDATION_ERROR`, which names each invalid field; long names are shortened.
 */
export function parseFields<Schema extends z.ZodType>(schema: Schema, value: unknown): z.infer<Schema> {
  const given = schema.safeParse(value);
  const parsed = given.success ? given : schema.safeParse(withoutNulls(schema, value));
  if (!parsed.success) {
    throw validationError(
      validationIssuesOf(parsed.error).map(({ path, message }) => ({ path: shownFieldName(path), message })),
    );
  }
  return parsed.data;
}

/** Returns the value without null in the fields of this schema, and of those in it, that may be missing and may not be null. */
function withoutNulls(schema: unknown, value: unknown): unknown {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault) {
    return withoutNulls(schema.unwrap(), value);
  }
  if (!(schema instanceof z.ZodObject) || !isObject(value)) return value;
  const fields: Readonly<Record<string, z.ZodType>> = schema.shape;
  const isAbsent = (name: string) => {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    return field?.safeParse(undefined).success === true && !field.safeParse(null).success;
  };
  const present = Object.entries(value).filter(([name, member]) => member !== null || !isAbsent(name));
  return Object.fromEntries(present.map(([name, member]) => [name, withoutNulls(fields[name], member)]));
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw new ApiError('VALIDATION_ERROR', 'body: expected UTF-8', { cause: error });
  }
}

function parseObject(text: string): object {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Without the cause, which quotes the body.
    throw new ApiError('VALIDATION_ERROR', 'body: expected valid JSON');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ApiError('VALIDATION_ERROR', 'body: expected a JSON object');
  }
  return value;
}

const textMax = 120;
const partMax = 40;
/** Longer than all known field names. */
const fieldNameMax = 32;
/** A key in which each character may be percent-encoded, also repeatedly. */
const keyLike =
  /(?:s|%(?:25)*73)(?:v|%(?:25)*76)(?:c|%(?:25)*63)(?:_|%(?:25)*5[fF])(?:[0-9A-Za-z]|%(?:25)*[0-9A-Fa-f]{2})+/g;
/** A top-up code, as it may be typed. */
const codeLike = /TOPUP-?[0-9A-Z-]+/gi;

/**
 * Makes a path or name from a client safe to repeat in an error (contract.md#b12-hints-in-a-404): short, visible ASCII, without a complete
 * key, token or top-up code. Errors may be logged in places where keys and tokens must not appear.
 */
export function shownText(text: string): string {
  const visible = text
    .slice(0, 10 * textMax)
    .replace(/[^\x21-\x7e]/g, '?')
    .replace(keyLike, 'svc_…')
    .replace(codeLike, 'TOPUP-…');
  return shorten(
    visible
      .split('/')
      .map((part) => shorten(part, partMax))
      .join('/'),
    textMax,
  );
}

/** Shortens the name of a field from a client. */
export function shownFieldName(name: string): string {
  return shownName(name, fieldNameMax);
}
