import type { TypedEvent } from '../answers/convert-events.ts';
import type { MessageAnswer } from './message-answers.ts';

type Json = Readonly<Record<string, unknown>>;

/** The events of a stream that say what a whole message says (Anthropic API reference, streaming messages). */
export function messageAsEvents({ answer }: MessageAnswer): string[] {
  const { content, stop_reason, stop_sequence, usage, ...message } = answer;
  const start = {
    ...message,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    ...(usage !== undefined && { usage }),
  };
  const events: TypedEvent[] = [
    { type: 'message_start', message: start },
    ...content.flatMap(blockAsEvents),
    {
      type: 'message_delta',
      delta: { stop_reason, stop_sequence: stop_sequence ?? null },
      ...(usage !== undefined && { usage }),
    },
    { type: 'message_stop' },
  ];
  return events.map((event) => JSON.stringify(event));
}

function blockAsEvents(block: Json, index: number): TypedEvent[] {
  const { begun, deltas } = splitBlock(block);
  return [
    { type: 'content_block_start', index, content_block: begun },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index },
  ];
}

/** A block as it begins, and what is added to it. A block of another type comes at once. */
function splitBlock(block: Json): { begun: Json; deltas: Json[] } {
  const { text, thinking, signature, input } = block;
  switch (block.type) {
    case 'text':
      return { begun: { ...block, text: '' }, deltas: [{ type: 'text_delta', text }] };
    case 'thinking': {
      const signed = signature === undefined ? [] : [{ type: 'signature_delta', signature }];
      return {
        begun: { ...block, thinking: '', signature: '' },
        deltas: [{ type: 'thinking_delta', thinking }, ...signed],
      };
    }
    case 'tool_use': {
      const json = { type: 'input_json_delta', partial_json: JSON.stringify(input ?? {}) };
      return { begun: { ...block, input: {} }, deltas: [json] };
    }
    default:
      return { begun: block, deltas: [] };
  }
}
