import { isObject } from '../../is-object.ts';
import { notAnAnswer } from '../answers/backend-said.ts';
import { parseBackendJson } from '../answers/parse-backend-json.ts';
import { type Chunk, chunkSchema } from './choices-schemas.ts';

/**
 * Parses the data of one event of a streamed answer. Fails with `BackendError`, with the backend's own error if it is one.
 */
export function parseChunk(data: string): Chunk {
  const value = parseBackendJson(data, 'an event');
  const chunk = isPlainChunk(value) ? value : chunkSchema.safeParse(value).data;
  // A chunk with an error is no chunk, even if it has other fields: passed on, it would be followed by [DONE].
  if (chunk !== undefined && chunk.error == null) return chunk;
  throw notAnAnswer(value, 'an event is not a chunk');
}

/**
 * Whether the schema would accept the value unchanged. This holds for nearly every chunk, at a tenth of the schema's cost. The schema
 * decides about all others.
 */
export function isPlainChunk(value: unknown): value is Chunk {
  if (!isObject(value) || !Array.isArray(value.choices)) return false;
  if (value.model !== undefined && typeof value.model !== 'string') return false;
  return value.choices.every(isPlainChoice);
}

function isPlainChoice(choice: unknown): boolean {
  if (!isObject(choice)) return false;
  const { index, delta, text, finish_reason: finishReason } = choice;
  return (
    Number.isSafeInteger(index) &&
    Number(index) >= 0 &&
    (delta == null || isObject(delta)) &&
    (text === undefined || typeof text === 'string') &&
    (finishReason == null || typeof finishReason === 'string')
  );
}
