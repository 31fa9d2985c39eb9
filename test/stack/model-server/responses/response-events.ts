import type { EventText, ReplyForm, StreamEvent } from '../endpoint.ts';
import type { Part } from '../model/answer-parts.ts';
import { namedEvent } from '../named-event.ts';
import {
  contentPart,
  failedResponse,
  itemId,
  outputItem,
  type ResponseParts,
  startedResponse,
  statusOf,
  wholeResponse,
} from './format-response.ts';

/** What the types of the events of each part begin with. */
const eventTypes = {
  reasoning: 'response.reasoning_text',
  text: 'response.output_text',
  refusal: 'response.refusal',
  call: 'response.function_call_arguments',
};
const customCall = 'response.custom_tool_call_input';

/** The response as server-sent events, each numbered by its place in the stream. */
export function* responseEvents(named: ResponseParts): Generator<StreamEvent> {
  const { answer, setting } = named;
  yield event('open', 'response.created', { response: startedResponse(named) });
  yield event('open', 'response.in_progress', { response: startedResponse(named) });
  for (const [index, part] of answer.parts.entries()) {
    const place = { item_id: itemId(part, setting, index), output_index: index };
    const item = (status: Parameters<typeof outputItem>[2]) => ({
      output_index: index,
      item: outputItem(part, place.item_id, status),
    });
    yield event('open', 'response.output_item.added', item('in_progress'));
    yield* contentEvents(part, place);
    yield event('close', 'response.output_item.done', item(statusOf(answer, index)));
  }
  yield { kind: 'done', text: lastText(named) };
}

/** How the stream goes wrong: with events of a text, wherever in the stream they are. */
export function responseForm(named: ResponseParts): ReplyForm {
  const place = { item_id: itemId({ kind: 'text' }, named.setting, 0), output_index: 0, content_index: 0 };
  const deltaType = `${eventTypes.text}.delta`;
  const delta = (sent: number) => numbered(deltaType, { ...place, logprobs: [], delta: '' }, sent);
  const closing = '"}\n\n';
  return {
    textOpenings: ['"delta":"', '"text":"', '"refusal":"', '"arguments":"', '"input":"'],
    wholeUpToText: '{"object":"response","output":[{"type":"message","content":[{"type":"output_text","text":"',
    eventUpToText: (sent) => delta(sent).slice(0, -closing.length),
    eventAfterText: closing,
    emptyEvent: delta,
    errorEvent: (message) => event('done', 'error', { code: 'server_error', message, param: null }).text,
    failedEvent: (message) => event('done', 'response.failed', { response: failedResponse(named, message) }).text,
    end: lastText(named),
  };
}

function* contentEvents(part: Part, item: { item_id: string; output_index: number }): Generator<StreamEvent> {
  const text = part.tokens.join('');
  const type = part.kind === 'call' && part.isCustom ? customCall : eventTypes[part.kind];
  const place = part.kind === 'call' ? item : { ...item, content_index: 0 };
  const logprobs = part.kind === 'text' ? { logprobs: [] } : {};
  if (part.kind !== 'call') {
    yield event('open', 'response.content_part.added', { ...place, part: contentPart(part.kind, '') });
  }
  for (const delta of part.tokens) yield event('chunk', `${type}.delta`, { ...place, ...logprobs, delta });
  yield event('close', `${type}.done`, { ...place, ...logprobs, ...doneFields(part, text) });
  if (part.kind !== 'call') {
    yield event('close', 'response.content_part.done', { ...place, part: contentPart(part.kind, text) });
  }
}

function doneFields(part: Part, text: string): object {
  if (part.kind === 'call') return part.isCustom ? { input: text } : { name: part.name, arguments: text };
  return part.kind === 'refusal' ? { refusal: text } : { text };
}

function lastText(named: ResponseParts): EventText {
  const type = named.answer.incomplete ? 'response.incomplete' : 'response.completed';
  return (sent) => numbered(type, { response: wholeResponse(named) }, sent);
}

function event(kind: StreamEvent['kind'], type: string, fields: object): StreamEvent {
  return { kind, text: (sent) => numbered(type, fields, sent) };
}

function numbered(type: string, fields: object, sent: number): string {
  return namedEvent(type, { type, sequence_number: sent, ...fields });
}
