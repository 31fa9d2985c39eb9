import { isObject } from '../../is-object.ts';
import { BackendError } from '../answers/backend-error.ts';
import { notAnAnswer } from '../answers/backend-said.ts';
import {
  createEventAssembler,
  createEventConverter,
  type EventBuilder,
  type EventFormat,
  type TypedEvent,
} from '../answers/convert-events.ts';
import { requireEnded } from '../answers/ended-reason.ts';
import { withMissing } from '../answers/with-missing.ts';
import type { AnswerAssembler, AnswerContext, StreamConverter, StreamOptions } from '../definition/answer-format.ts';
import { closeOutput } from './close-output.ts';
import { createOutputNumbers } from './number-output.ts';
import { createOutputProgress } from './output-progress.ts';
import {
  completeItem,
  completePart,
  completeResponse,
  publishedEvent,
  requiredOfEvent,
} from './required-properties.ts';
import { cutShort } from './response-answers.ts';
import { presentUsage, readUsage } from './response-usage.ts';
import { createWrittenOutput } from './written-output.ts';

type Json = Readonly<Record<string, unknown>>;
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
