import { ApiError } from '../shared/errors.ts';

/** A JSON object that a client sent: its value, and the text it came as. */
export type JsonBody = { value: object; text: string };

/** The object in these bytes, which have to be UTF-8; `VALIDATION_ERROR` for anything else. */
export function parseJsonBody(bytes: Uint8Array): JsonBody {
  const text = decodeUtf8(bytes);
  return { text, value: parseObject(text) };
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
