import { z } from 'zod';
import { isObject, type Json } from '../../json/json-values.ts';
import { BackendError, requireEnded } from '../answers/backend-error.ts';
import { createEventConverter, type EventFormat, type TypedEvent } from '../answers/convert-events.ts';
import { withMissing } from '../answers/with-missing.ts';
import { writtenText } from '../answers/written-text.ts';
import type { AnswerTokens, StreamConverter, StreamOptions } from '../definition/answer-format.ts';
import {
  isReason,
  type MessageAnswer,
  presentUsage,
  publishedEvent,
  readUsage,
  requiredOf,
  withCounts,
} from './message-answers.ts';

/** The events of a streamed message, as far as the service reads them (Anthropic API reference, streaming messages). */
const startSchema = z.looseObject({ message: z.looseObject({ usage: z.unknown().optional() }) });
const blockSchema = z.looseObject({ index: z.int().nonnegative(), content_block: z.looseObject({}) });
const deltaSchema = z.looseObject({ index: z.int().nonnegative(), delta: z.looseObject({}) });
const stopSchema = z.looseObject({ index: z.int().nonnegative() });
const endSchema = z.looseObject({ delta: z.looseObject({}).nullable(), usage: z.unknown().optional() });

type Usage = Readonly<Record<string, unknown>>;

export function createMessageConverter(options: StreamOptions): StreamConverter {
  return createEventConverter(createMessageFormat(options));
}

/**
 * The block that was begun and not ended. Blocks come one after another (Anthropic API reference, streaming messages), and SDKs take the
 * end of a block for that of the latest one. Some servers end all blocks at the end of the message. A change is made when its event was
 * sent, which is when the next one comes.
 */
function createOpenBlock() {
  let open: number | undefined;
  let next: number | undefined;
  return {
    settle(): void {
      open = next;
    },
    /** Returns the end of the block before it, if that is still open. */
    begin(index: number): TypedEvent[] {
      next = index;
      return open === undefined || open === index ? [] : [endOf(open)];
    },
    /** Whether the block is open: otherwise its end was sent. */
    end(index: number): boolean {
      if (open !== index) return false;
      next = undefined;
      return true;
    },
    cut: () => (open === undefined ? [] : [endOf(open)]),
  };
}

function endOf(index: number): TypedEvent {
  return { type: 'content_block_stop', index };
}

/** The end of a message, and its usage. Some servers send further deltas after the one with the reason. */
function createMessageEnd() {
  let end: Usage & { delta?: Usage } = {};
  let isEnded = false;
  let usage: Usage = {};
  let hasCounted = false;

  return {
    start(counts: unknown): void {
      usage = isObject(counts) ? counts : {};
    },
    take({ delta, ...event }: z.infer<typeof endSchema>): void {
      const { stop_reason: given, ...rest } = delta ?? {};
      requireEnded(given);
      // The backend has ended the message. What follows is only the event that says so.
      isEnded ||= isReason(given);
      end = { ...event, delta: { ...end.delta, ...rest, ...(isReason(given) && { stop_reason: given }) } };
      usage = withCounts(usage, event.usage);
      hasCounted ||= isObject(event.usage) && event.usage.output_tokens != null;
    },
    cut(): void {
      end = { delta: { stop_reason: 'max_tokens', stop_sequence: null } };
    },
    isEnded: () => isEnded,
    /** The first event has a count of output tokens, too, from before there was any. */
    usage: () => (hasCounted ? readUsage(usage) : undefined),
    event(tokens: AnswerTokens): TypedEvent {
      const delta = withMissing(end.delta ?? {}, { stop_reason: 'end_turn', stop_sequence: null });
      const presented = presentUsage(tokens, readUsage(usage) === undefined ? undefined : usage);
      return { ...end, type: 'message_delta', delta, usage: presented };
    },
  };
}

/** Follows the events of a streamed message. */
export function createMessageFormat(options: StreamOptions): EventFormat {
  const blocks = createOpenBlock();
  const end = createMessageEnd();
  let hasStarted = false;

  function start(event: TypedEvent): TypedEvent {
    const { message } = parse(startSchema, event);
    hasStarted = true;
    end.start(message.usage);
    const required = { ...requiredOf(options), content: [], usage: { input_tokens: 0, output_tokens: 0 } };
    const complete = withMissing(message, required);
    if (complete === message && message.model === options.model) return event;
    return { ...event, message: { ...complete, model: options.model } };
  }

  return {
    take(given) {
      const event = publishedEvent(given, options);
      blocks.settle();
      switch (event.type) {
        case 'message_start':
          return { event: start(event), text: writtenText(parse(startSchema, event).message.content) };
        case 'content_block_start': {
          const { index, content_block: block } = parse(blockSchema, event);
          // The name of a tool is no token yet: until one comes, another backend can take over.
          return { before: blocks.begin(index), event, text: writtenText({ ...block, name: undefined }) };
        }
        case 'content_block_delta':
          return { event, text: writtenText(parse(deltaSchema, event).delta) };
        case 'content_block_stop':
          return { event: blocks.end(parse(stopSchema, event).index) ? event : undefined, text: '' };
        case 'message_delta':
          end.take(parse(endSchema, event));
          // Beside text, no tokens are no report.
          return { event: undefined, text: '', tokens: end.usage()?.completionTokens || undefined };
        case 'message_stop':
          if (!end.isEnded()) throw new BackendError('interrupted', 'the message stopped without a stop_reason');
          return { event: undefined, text: '' };
        default:
          return { event, text: '' };
      }
    },
    complete: () => hasStarted && end.isEnded(),
    usage: end.usage,
    cut() {
      end.cut();
      return blocks.cut();
    },
    end: (tokens) => [end.event(tokens), { type: 'message_stop' }],
  };
}

function parse<Schema extends z.ZodType>(schema: Schema, event: TypedEvent): z.infer<Schema> {
  const parsed = schema.safeParse(event);
  if (!parsed.success) throw new BackendError('unreadable', `an event is no ${event.type}`, { cause: parsed.error });
  return parsed.data;
}

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
