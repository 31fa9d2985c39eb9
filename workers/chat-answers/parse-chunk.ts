import { type ChatChunk, chatChunkSchema, chatErrorSchema } from '../../shared/chat-call/chat-completion.ts';
import { isObject } from '../../shared/is-object.ts';
import { BackendError } from '../exchange/backend-error.ts';
import { relayedText } from '../exchange/relayed-text.ts';
import { parseBackendJson } from './parse-backend-json.ts';

/**
 * The data of one event of a streamed answer, looked into. Fails with `BackendError`, by the backend's own words if it had any,
 * without the key that it was called with.
 */
export function parseChunk(data: string, apiKey?: string): ChatChunk {
  const value = parseBackendJson(data, 'an event');
  const chunk = isPlainChunk(value) ? value : chatChunkSchema.safeParse(value).data;
  // One that names an error is none, whatever else it holds: passed on, it would be followed by [DONE].
  if (chunk !== undefined && chunk.error == null) return chunk;
  const failure = chatErrorSchema.safeParse(value);
  if (!failure.success) throw new BackendError('unreadable', 'an event is not a chunk');
  throw new BackendError('interrupted', relayedText(failure.data, apiKey) || 'the backend broke off with an error');
}

/**
 * Whether the schema would take the value as it is: nearly every chunk, at a tenth of the schema's cost. What is not accepted
 * here is the schema's to judge.
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
