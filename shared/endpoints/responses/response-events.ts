import { isObject, type Json } from '../../json/json-values.ts';
import { BackendError, notAnAnswer, requireEnded } from '../answers/backend-error.ts';
import {
  createEventAssembler,
  createEventConverter,
  type EventBuilder,
  type EventFormat,
  type TypedEvent,
} from '../answers/convert-events.ts';
import { withMissing } from '../answers/with-missing.ts';
import type { AnswerAssembler, AnswerContext, StreamConverter, StreamOptions } from '../definition/answer-format.ts';
import { createOutputNumbers } from './number-output.ts';
import { closeOutput, createOutputProgress, type TextKind, textMembers } from './output-progress.ts';
import {
  completeItem,
  completePart,
  completeResponse,
  cutShort,
  presentUsage,
  publishedEvent,
  type ResponseAnswer,
  readUsage,
  requiredOfEvent,
} from './response-answers.ts';
import { createWrittenOutput } from './written-output.ts';

type Lifecycle = TypedEvent & { response: Json };

const finalTypes = new Set(['response.completed', 'response.incomplete']);

export function createResponseConverter(options: StreamOptions): StreamConverter {
  return createEventConverter(createResponseFormat(options));
}

/** Assembles a response: its last event has all of it, except that some servers leave out the output. */
export function createResponseAssembler(options: StreamOptions): AnswerAssembler {
  const { ended, ...format } = createResponseFormat(options);
  const builder: EventBuilder = {
    take() {},
    cut() {},
    answer(usage) {
      const answer = ended();
      return { text: JSON.stringify(answer), answer, usage };
    },
  };
  return createEventAssembler(format, builder);
}

/** Follows the named events of a streamed response (OpenAI API reference, streaming events of responses). */
function createResponseFormat(options: StreamOptions): EventFormat & { ended(): Json } {
  const places = createOutputNumbers(options.budget);
  const output = createOutputProgress(options.budget);
  const written = createWrittenOutput(options.budget);
  const numbers = createNumbers();
  let response: Json = {};
  let final: Lifecycle | undefined;

  return {
    take(given) {
      numbers.settle();
      const event = publishedEvent(places.number(given), options);
      output.take(event);
      if (hasFailed(event)) throw notAnAnswer(event.response, 'the response has failed', { fault: 'interrupted' });
      requireEnded(statusIn(event));
      const text = written.take(event);
      if (hasResponse(event)) {
        const inOrder = withOutput(event.response, places.inOrder);
        const known = { ...event, response: completeResponse(inOrder, options, statusAfter(event.type)) };
        response = known.response;
        if (!finalTypes.has(event.type)) return { event: numbers.given(known), text };
        final = known;
        return { event: undefined, text, tokens: readUsage(known.response.usage)?.completionTokens || undefined };
      }
      if (finalTypes.has(event.type)) throw new BackendError('unreadable', `an event is no ${event.type}`);
      return { event: numbers.given(completeEvent(event, output.nameAt, options)), text };
    },
    complete: () => final !== undefined,
    usage: () => readUsage(final?.response.usage),
    cut() {
      numbers.undo();
      const closed = closeOutput(output.items(), 'incomplete');
      final = {
        type: 'response.incomplete',
        response: { ...completeResponse(response, options), ...cutShort, output: closed.output, usage: null },
      };
      return closed.events.map(numbers.next);
    },
    end(tokens) {
      if (final === undefined) return [];
      const { response: ended, sequence_number: _, ...event } = final;
      return [numbers.next({ ...event, response: { ...ended, usage: presentUsage(tokens, ended.usage) } })];
    },
    /** The response as it ended, or as far as it has come. */
    ended() {
      const { output: given, ...whole } = final?.response ?? response;
      const isWhole = Array.isArray(given) && given.length > 0;
      const status = final?.type === 'response.completed' ? 'completed' : 'incomplete';
      return { ...whole, output: isWhole ? given : closeOutput(output.items(), status).output };
    },
  };
}

/** The sequence numbers of events: the backend's, as long as they grow. An event counts when the next one comes. */
function createNumbers() {
  let next = 0;
  let pending: number | undefined;
  const settle = () => {
    if (pending !== undefined) next = pending + 1;
    pending = undefined;
  };
  return {
    settle,
    undo(): void {
      pending = undefined;
    },
    given(event: TypedEvent): TypedEvent {
      const { sequence_number: own } = event;
      pending = typeof own === 'number' && Number.isSafeInteger(own) && own >= next ? own : next;
      return own === pending ? event : { ...event, sequence_number: pending };
    },
    next(event: TypedEvent): TypedEvent {
      settle();
      return { ...event, sequence_number: next++ };
    },
  };
}

function hasResponse(event: TypedEvent): event is Lifecycle {
  return isObject(event.response);
}

/** Passed on, an error in a response would show a client what is only for operators. */
function hasFailed({ type, response }: TypedEvent): boolean {
  return type === 'response.failed' || (isObject(response) && response.error != null);
}

/** Beside an event of its own, some servers end a response with the event of a complete one. */
function statusIn({ type, response }: TypedEvent): unknown {
  return type === 'response.cancelled' ? 'cancelled' : isObject(response) && response.status;
}

function withOutput(response: Json, change: (output: readonly unknown[]) => readonly unknown[]): Json {
  const output = Array.isArray(response.output) ? change(response.output) : response.output;
  return output === response.output ? response : { ...response, output };
}

/** The status of a response in an event of this type. */
function statusAfter(type: string): string {
  return finalTypes.has(type) ? type.slice('response.'.length) : 'in_progress';
}

/** The event with the properties that OpenAI's description requires: the event itself if it has all. */
function completeEvent(event: TypedEvent, nameAt: (index: unknown) => unknown, context: AnswerContext): TypedEvent {
  const status = event.type.endsWith('.added') ? 'in_progress' : 'completed';
  const index = Number(event.output_index) || 0;
  const item = event.item === undefined ? undefined : completeItem(event.item, { context, index, status });
  const part = event.part === undefined ? undefined : completePart(event.part);
  const isCallDone = event.type === 'response.function_call_arguments.done';
  const complete = withMissing(event, isCallDone ? { name: nameAt(event.output_index) } : requiredOfEvent(event.type));
  if (item === event.item && part === event.part) return complete;
  return { ...complete, ...(item !== undefined && { item }), ...(part !== undefined && { part }) };
}

/** The events of a stream that say what a whole response says (OpenAI API reference, streaming events of responses). */
export function responseAsEvents({ answer }: ResponseAnswer): string[] {
  const { output, usage, status: given, ...response } = answer;
  const status = given ?? 'completed';
  const begun = { ...response, status: 'in_progress', output: [] };
  const ended = { ...response, status, output, ...(usage !== undefined && { usage }) };
  const events: TypedEvent[] = [
    { type: 'response.created', response: begun },
    { type: 'response.in_progress', response: begun },
    ...output.flatMap(itemAsEvents),
    { type: `response.${status}`, response: ended },
  ];
  return events.map((event) => JSON.stringify(event));
}

/** An item as it begins, its texts, and its end. An item of another kind comes at once. */
function itemAsEvents(item: Json, output_index: number): TypedEvent[] {
  const place = { item_id: item.id, output_index };
  const lists = { content: listOf(item.content), summary: listOf(item.summary) };
  const parts = [
    ...lists.content.flatMap((part, content_index) => partAsEvents(part, { ...place, content_index })),
    ...lists.summary.flatMap((part, summary_index) => partAsEvents(part, { ...place, summary_index })),
  ];
  const call = callKinds.get(item.type);
  const args = call === undefined ? [] : textAsEvents(call, item, place);
  const emptied = {
    ...(lists.content.length > 0 && { content: [] }),
    ...(lists.summary.length > 0 && { summary: [] }),
    ...(call !== undefined && { [textMembers[call]]: '' }),
  };
  return [
    { type: 'response.output_item.added', output_index, item: { ...item, ...emptied, status: 'in_progress' } },
    ...parts,
    ...args,
    { type: 'response.output_item.done', output_index, item },
  ];
}

const callKinds: ReadonlyMap<unknown, TextKind> = new Map([
  ['function_call', 'response.function_call_arguments'],
  ['custom_tool_call', 'response.custom_tool_call_input'],
]);

const partKinds: ReadonlyMap<unknown, { kind: TextKind; part: string }> = new Map([
  ['output_text', { kind: 'response.output_text', part: 'response.content_part' }],
  ['refusal', { kind: 'response.refusal', part: 'response.content_part' }],
  ['reasoning_text', { kind: 'response.reasoning_text', part: 'response.content_part' }],
  ['summary_text', { kind: 'response.reasoning_summary_text', part: 'response.reasoning_summary_part' }],
]);

function partAsEvents(part: Json, place: Json): TypedEvent[] {
  const known = partKinds.get(part.type);
  if (known === undefined) return [];
  const begun = { ...part, [textMembers[known.kind]]: '' };
  return [
    { type: `${known.part}.added`, ...place, part: begun },
    ...textAsEvents(known.kind, part, place),
    { type: `${known.part}.done`, ...place, part },
  ];
}

function textAsEvents(kind: TextKind, holder: Json, place: Json): TypedEvent[] {
  const member = textMembers[kind];
  const text = typeof holder[member] === 'string' ? holder[member] : '';
  return [
    { type: `${kind}.delta`, ...place, delta: text },
    { type: `${kind}.done`, ...place, [member]: text },
  ];
}

function listOf(value: unknown): Json[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}
