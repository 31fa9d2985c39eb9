import type { ErrorForm, ReplyForm, Setting, StreamEvent } from '../endpoint.ts';
import { parseJson } from '../http.ts';
import type { Part } from '../model/answer-parts.ts';
import { namedEvent } from '../named-event.ts';
import type { MessagesAnswer } from './answer-messages.ts';

const errorTypes: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  529: 'overloaded_error',
};

/** Errors in Anthropic's shape. */
export const anthropicErrors: ErrorForm = {
  body(status, { message }) {
    const otherType = status < 500 ? 'invalid_request_error' : 'api_error';
    return { type: 'error', error: { type: errorTypes[status] ?? otherType, message } };
  },
  deadEngine,
};

const deltaUpToText =
  'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"';
const deltaAfterText = '"}}\n\n';

export const messagesForm: ReplyForm = {
  textOpenings: ['"text":"', '"thinking":"', '"partial_json":"', '"said":"'],
  wholeUpToText: '{"type":"message","role":"assistant","content":[{"type":"text","text":"',
  eventUpToText: deltaUpToText,
  eventAfterText: deltaAfterText,
  emptyEvent: `${deltaUpToText}${deltaAfterText}`,
  errorEvent: (message) => namedEvent('error', deadEngine(message)),
  end: namedEvent('message_stop', { type: 'message_stop' }),
};

interface Named {
  readonly model: string;
  readonly answer: MessagesAnswer & { readonly cachedTokens: number };
  readonly setting: Setting;
}

/** The complete message as JSON. */
export function formatMessage({ model, answer, setting }: Named): string {
  return JSON.stringify({
    ...headingOf(model, setting),
    content: answer.parts.map((part) => blockOf(part, part.tokens.join(''))),
    stop_reason: answer.stopReason,
    stop_sequence: null,
    ...(setting.withUsage && { usage: usageOf(answer, answer.completionTokens) }),
  });
}

/** The message as server-sent events. */
export function* messageEvents({ model, answer, setting }: Named): Generator<StreamEvent> {
  const { completionTokens, stopReason } = answer;
  const usage = (outputTokens: number) => setting.withUsage && { usage: usageOf(answer, outputTokens) };
  const message = { ...headingOf(model, setting), content: [], stop_reason: null, stop_sequence: null, ...usage(0) };
  yield event('open', 'message_start', { message });
  yield event('open', 'ping', {});
  for (const [index, part] of answer.parts.entries()) {
    const delta = (value: object) => ({ index, delta: value });
    yield event('open', 'content_block_start', { index, content_block: emptyBlockOf(part) });
    for (const token of part.tokens) yield event('chunk', 'content_block_delta', delta(deltaOf(part, token)));
    if (part.kind === 'reasoning') {
      const signature = signatureOf(part.tokens.join(''));
      yield event('close', 'content_block_delta', delta({ type: 'signature_delta', signature }));
    }
    yield event('close', 'content_block_stop', { index });
  }
  const delta = { stop_reason: stopReason, stop_sequence: null };
  yield event('finish', 'message_delta', { delta, ...usage(completionTokens) });
  yield event('done', 'message_stop', {});
}

function event(kind: StreamEvent['kind'], type: string, fields: object): StreamEvent {
  return { kind, text: namedEvent(type, { type, ...fields }) };
}

function headingOf(model: string, { id }: Setting) {
  return { id: `msg_${id}`, type: 'message', role: 'assistant', model };
}

function blockOf(part: Part, text: string): object {
  if (part.kind === 'reasoning') return { type: 'thinking', thinking: text, signature: signatureOf(text) };
  // Arguments that the limit has cut are not JSON, and a whole message can only omit them.
  if (part.kind === 'call') return { ...emptyBlockOf(part), input: parseJson(text) ?? {} };
  return { type: 'text', text };
}

function emptyBlockOf(part: Part): object {
  if (part.kind === 'reasoning') return { type: 'thinking', thinking: '', signature: '' };
  if (part.kind === 'call') {
    return { type: 'tool_use', id: part.id.replace(/^call/, 'toolu'), name: part.name, input: {} };
  }
  return { type: 'text', text: '' };
}

function deltaOf({ kind }: Part, token: string): object {
  if (kind === 'reasoning') return { type: 'thinking_delta', thinking: token };
  if (kind === 'call') return { type: 'input_json_delta', partial_json: token };
  return { type: 'text_delta', text: token };
}

/** Any text that depends on the thoughts serves as their signature. */
function signatureOf(thoughts: string): string {
  return Buffer.from(`signed: ${thoughts}`).toString('base64');
}

/** Unlike in OpenAI's format, the tokens of the input are those that were not cached. */
function usageOf({ promptTokens, cachedTokens }: Named['answer'], outputTokens: number) {
  return {
    input_tokens: promptTokens - cachedTokens,
    output_tokens: outputTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cachedTokens,
  };
}

function deadEngine(message: string) {
  return { type: 'error', error: { type: 'api_error', message } };
}
