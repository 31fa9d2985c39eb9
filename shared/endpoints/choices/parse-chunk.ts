import { isObject } from '../../is-object.ts';
import { notAnAnswer, readSaid } from '../answers/backend-said.ts';
import { requireEnded } from '../answers/ended-reason.ts';
import { parseBackendJson } from '../answers/parse-backend-json.ts';
import { type Chunk, chunkSchema } from './choices-schemas.ts';
import { usageIn } from './choices-usage.ts';

/**
 * Parses the data of one event of a streamed answer. Undefined for what is no chunk and no error, and is skipped
 * (contract.md#ms9-what-is-skipped). Fails with `BackendError`, with the backend's own error if it is one.
 */
export function parseChunk(data: string): Chunk | undefined {
  if (data.trim() === '') return undefined;
  const value = parseBackendJson(data, 'an event');
  const chunk = isPlainChunk(value) ? value : chunkSchema.safeParse(withChoices(value)).data;
  // A chunk with an error is no chunk, even if it has other fields: passed on, it would be followed by [DONE].
  if (chunk !== undefined && chunk.error == null) {
    for (const choice of chunk.choices) requireEnded(choice.finish_reason);
    return chunk;
  }
  if (isOther(value) && readSaid(value) === undefined) return undefined;
  throw notAnAnswer(value, 'an event is not a chunk');
}

/** Some servers report usage in an event without choices. */
function withChoices(value: unknown): unknown {
  return isObject(value) && value.choices == null && usageIn(value) != null ? { ...value, choices: [] } : value;
}

function isOther(value: unknown): boolean {
  return value === null || (isObject(value) && value.choices == null && value.error == null);
}

/**
 * Whether the schema would accept the value unchanged. This holds for nearly every chunk, at a tenth of the schema's cost. The schema
 * decides about all others.
 */
export function isPlainChunk(value: unknown): value is Chunk {
  if (!isObject(value) || !Array.isArray(value.choices)) return false;
  if (value.model != null && typeof value.model !== 'string') return false;
  return value.choices.every(isPlainChoice);
}

function isPlainChoice(choice: unknown): boolean {
  if (!isObject(choice)) return false;
  const { index, delta, text, finish_reason: finishReason } = choice;
  return (
    (index == null || (Number.isSafeInteger(index) && Number(index) >= 0)) &&
    (delta == null || isObject(delta)) &&
    (text == null || typeof text === 'string') &&
    (finishReason == null || typeof finishReason === 'string')
  );
}
