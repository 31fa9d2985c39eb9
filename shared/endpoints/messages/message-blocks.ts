import { isObject } from '../../is-object.ts';
import type { TypedEvent } from '../answers/convert-events.ts';
import { parseBackendJson } from '../answers/parse-backend-json.ts';
import type { AnswerContext } from '../definition/answer-format.ts';

type Json = Readonly<Record<string, unknown>>;
type Context = Pick<AnswerContext, 'requestId'>;

/** Some servers send null or an empty text for a reason that they do not have. */
export function isReason(reason: unknown): reason is string {
  return typeof reason === 'string' && reason !== '';
}

/** Returns a block as Anthropic publishes calls of tools, with an id and an object as its input (contract.md#ms12-tool-calls-and-lists). */
export function publishedBlock<T extends Json>(block: T, index: unknown, { requestId }: Context): T {
  if (block.type !== 'tool_use') return block;
  const id = isReason(block.id) ? block.id : `toolu_${requestId.replace('req_', '')}_${index}`;
  const input = isObject(block.input) ? block.input : objectIn(block.input);
  return id === block.id && input === block.input ? block : { ...block, id, input };
}

/** The input that a text has: empty if it is no JSON object, as one that ends early. */
export function objectIn(text: unknown): Json {
  try {
    const value: unknown = parseBackendJson(String(text), 'an input');
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

/**
 * Some servers name the sequence at which a message has ended, and say that it ended without one (contract.md#ms12-tool-calls-and-lists).
 */
export function publishedEnd<T extends Json>(end: T): T {
  return end.stop_reason === 'end_turn' && isReason(end.stop_sequence) ? { ...end, stop_reason: 'stop_sequence' } : end;
}

/** Does the same for an event that begins a block, continues the input of one, which comes as text, or ends the message. */
export function publishedEvent(event: TypedEvent, context: Context): TypedEvent {
  const { type, index, content_block: given, delta } = event;
  if (type === 'content_block_start' && isObject(given)) {
    const block = publishedBlock(given, index, context);
    return block === given ? event : { ...event, content_block: block };
  }
  if (!isObject(delta)) return event;
  if (type === 'message_delta') return { ...event, delta: publishedEnd(delta) };
  if (delta.type !== 'input_json_delta' || !isObject(delta.partial_json)) return event;
  return { ...event, delta: { ...delta, partial_json: JSON.stringify(delta.partial_json) } };
}
