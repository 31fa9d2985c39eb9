import type { z } from 'zod';
import { ApiError, validationError } from '../../shared/errors.ts';
import { exceededJsonBound } from '../../shared/json-bounds.ts';
import { validationIssuesOf } from '../../shared/validation-issues.ts';

/** A JSON object that a client sent: its value, and the text it came as. */
export type JsonBody = { value: object; text: string };

/** The object in these bytes, which have to be UTF-8 and within the bounds of JSON; `VALIDATION_ERROR` for anything else. */
export function parseJsonBody(bytes: Uint8Array): JsonBody {
  const exceeded = exceededJsonBound(bytes);
  if (exceeded !== undefined) throw validationError([{ path: 'body', message: exceeded }]);
  const text = decodeUtf8(bytes);
  return { text, value: parseObject(text) };
}

/** Longer than any name of a field that we know; one that we do not is the client's word, and could be the whole body. */
const pathLengthMax = 32;

/** The body as this schema has it; fails as `parseFields` does. */
export function parseBody<Schema extends z.ZodType>(schema: Schema, { value }: JsonBody): z.infer<Schema> {
  return parseFields(schema, value);
}

/** What a client sent as this schema has it; `VALIDATION_ERROR` naming each field that does not fit, a long name by its beginning. */
export function parseFields<Schema extends z.ZodType>(schema: Schema, value: unknown): z.infer<Schema> {
  const parsed = schema.safeParse(value);
  if (!parsed.success) {
    throw validationError(
      validationIssuesOf(parsed.error).map(({ path, message }) => ({ path: shortened(path), message })),
    );
  }
  return parsed.data;
}

function shortened(path: string): string {
  return path.length > pathLengthMax ? `${path.slice(0, pathLengthMax)}…` : path;
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
    // Without its cause, which quotes the body.
    throw new ApiError('VALIDATION_ERROR', 'body: expected valid JSON');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ApiError('VALIDATION_ERROR', 'body: expected a JSON object');
  }
  return value;
}
