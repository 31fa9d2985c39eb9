import { isObject, type Json } from '../../json/json-values.ts';
import { BackendError } from '../answers/backend-error.ts';
import { createEventAssembler, type EventBuilder } from '../answers/convert-events.ts';
import type { AnswerAssembler, StreamOptions } from '../definition/answer-format.ts';
import { isReason, objectIn, publishedEvent, withCounts } from './message-answers.ts';
import { createMessageFormat } from './message-events.ts';

/** `json`: the arguments of a tool call so far. */
type Block = { fields: Record<string, unknown>; json: string };

/** Memory of an event besides its text. */
const eventCharacters = 64;

/** Assembles a message from the events of a stream (Anthropic API reference, streaming messages). */
export function createMessageAssembler(options: StreamOptions): AnswerAssembler {
  return createEventAssembler(createMessageFormat(options), createMessageBuilder(options));
}

function createMessageBuilder(context: StreamOptions): EventBuilder {
  const { model, budget } = context;
  const blocks = new Map<unknown, Block>();
  let message: Json = {};
  let usage: Json = {};
  let isCut = false;

  /** What comes beside the content: its later values replace the earlier ones. */
  function addToMessage(fields: Json, counts: unknown): void {
    budget.spend(eventCharacters + JSON.stringify([fields, counts]).length);
    message = { ...message, ...fields };
    usage = withCounts(usage, counts);
  }

  function begin(index: unknown, block: Json): void {
    budget.spend(eventCharacters + JSON.stringify(block).length);
    blocks.set(index, begun(block));
  }

  return {
    take(given) {
      const { type, ...event } = publishedEvent(given, context);
      const { index, delta } = event;
      if (type === 'message_start' && isObject(event.message)) {
        const { content, usage: counts, ...fields } = event.message;
        addToMessage(fields, counts);
        if (!Array.isArray(content)) return;
        for (const [at, block] of content.entries()) if (isObject(block)) begin(at, block);
      } else if (type === 'content_block_start' && isObject(event.content_block)) {
        begin(index, event.content_block);
      } else if (type === 'content_block_delta' && isObject(delta)) {
        const block = blocks.get(index);
        if (block === undefined) throw new BackendError('unreadable', 'a block has a part before it has begun');
        budget.spend(eventCharacters + extend(block, delta));
      } else if (type === 'message_delta' && isObject(delta)) {
        const { delta: _, usage: counts, ...others } = event;
        const reason = isReason(delta.stop_reason) ? delta.stop_reason : message.stop_reason;
        addToMessage({ ...others, ...delta, stop_reason: reason }, counts);
      }
    },
    cut() {
      isCut = true;
    },
    answer(reported) {
      const content = [...blocks].toSorted(([one], [other]) => Number(one) - Number(other));
      const answer = {
        ...message,
        type: 'message',
        model,
        content: content.map(([, block]) => ended(block)),
        ...(isCut && { stop_reason: 'max_tokens', stop_sequence: null }),
        ...(reported !== undefined && { usage }),
      };
      return { text: JSON.stringify(answer), answer, usage: reported };
    },
  };
}

function begun(block: Json): Block {
  const { citations } = block;
  return { fields: { ...block, ...(Array.isArray(citations) && { citations: [...citations] }) }, json: '' };
}

/** Extends a block, and returns the length of what was added. An estimate of the tokens so far is no part of it. */
function extend(block: Block, { type, estimated_tokens: _, ...delta }: Json): number {
  const { fields } = block;
  if (type === 'input_json_delta') {
    const { partial_json: part } = delta;
    if (typeof part !== 'string') return 0;
    block.json += part;
    return part.length;
  }
  if (type === 'citations_delta') {
    const citations: unknown[] = Array.isArray(fields.citations) ? fields.citations : [];
    citations.push(delta.citation);
    fields.citations = citations;
    return JSON.stringify(delta).length;
  }
  let length = 0;
  for (const name in delta) {
    const value = delta[name];
    const before = fields[name];
    if (typeof value === 'string') {
      // A signature comes once, in one piece.
      fields[name] = typeof before === 'string' && type !== 'signature_delta' ? before + value : value;
      length += value.length;
    } else if (value !== null) {
      fields[name] = value;
      length += JSON.stringify(value).length;
    }
  }
  return length;
}

/** Arguments that end early, at the backend's limit or ours, are not JSON. */
function ended({ fields, json }: Block): Json {
  return json === '' ? fields : { ...fields, input: objectIn(json) };
}
