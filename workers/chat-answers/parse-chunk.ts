import { type ChatChunk, chatChunkSchema, chatErrorSchema } from '../../shared/chat-call/chat-completion.ts';
import { isObject } from '../../shared/is-object.ts';
import { BackendError } from '../exchange/backend-error.ts';
import { relayedText } from '../exchange/relayed-text.ts';
import { parseBackendJson } from './parse-backend-json.ts';

/**
 * Parses the data of one event of a streamed answer. Fails with `BackendError`, with the backend's own message if there is one, without
 * the key of the call.
 */
export function parseChunk(data: string, apiKey?: string): ChatChunk {
  const value = parseBackendJson(data, 'an event');
  const chunk = isPlainChunk(value) ? value : chatChunkSchema.safeParse(value).data;
  // A chunk with an error is no chunk, even if it has other fields: passed on, it would be followed by [DONE].
  if (chunk !== undefined && chunk.error == null) return chunk;
  const failure = chatErrorSchema.safeParse(value);
  if (!failure.success) throw new BackendError('unreadable', 'an event is not a chunk');
  throw new BackendError('interrupted', relayedText(failure.data, apiKey) || 'the backend broke off with an error');
}

/**
 * Whether the schema would accept the value unchanged. This holds for nearly every chunk, at a tenth of the schema's cost. The schema
 * decides about all others.
 */
export function isPlainChunk(value: unknown): value is ChatChunk {
  if (!isObject(value) || !Array.isArray(value.choices)) return false;
  if (value.model !== undefined && typeof value.model !== 'string') return false;
  return value.choices.every(isPlainChoice);
}

function isPlainChoice(choice: unknown): boolean {
  if (!isObject(choice)) return false;
  const { index, delta, finish_reason: finishReason } = choice;
  return (
    Number.isSafeInteger(index) &&
    Number(index) >= 0 &&
    (delta == null || isObject(delta)) &&
    (finishReason == null || typeof finishReason === 'string')
  );
}
