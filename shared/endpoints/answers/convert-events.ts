import { isObject } from '../../json/json-values.ts';
import {
  type AnswerAssembler,
  type AnswerTokens,
  nothingWritten,
  type ReportedUsage,
  type StreamConverter,
  type WholeAnswer,
} from '../definition/answer-format.ts';
import { BackendError, notAnAnswer, readSaid } from './backend-error.ts';
import { parseBackendJson } from './parse-backend-json.ts';
import { answerIdIn } from './with-missing.ts';

/** An event whose data names its type. */
export type TypedEvent = Readonly<Record<string, unknown>> & { readonly type: string };

/** What an event means for its stream. */
type TakenEvent = {
  /** Events of ours that come before it. */
  before?: readonly TypedEvent[];
  /** The event for the client. Undefined if it is kept until the end, or left out. */
  event: TypedEvent | undefined;
  /** What the model wrote in it. */
  text: string;
  /** The backend's count of the tokens so far, if the event has one. */
  tokens?: number | undefined;
};

/** How the events of one endpoint are followed to the end of an answer. */
export interface EventFormat {
  /** Takes an event. The event before it was sent. Fails with `BackendError` for an event that reports a failure. */
  take(event: TypedEvent): TakenEvent;
  /** Whether the end of the answer has come. */
  complete(): boolean;
  usage(): ReportedUsage | undefined;
  /** Ends what is open, as if the event that was taken last had not come. Returns the events for that. */
  cut(): TypedEvent[];
  /** The final events. */
  end(tokens: AnswerTokens): TypedEvent[];
}

/** Makes the whole answer of the events of a stream. */
export interface EventBuilder {
  /** Takes an event. Fails with `BackendError`. */
  take(event: TypedEvent): void;
  /** Ends what is open, as a backend would at its output limit. */
  cut(): void;
  /** The answer so far. `usage`: what the backend has reported. Fails with `BackendError`. */
  answer(usage: ReportedUsage | undefined): WholeAnswer;
}

/** Events before the first token can repeat the request, with all its tools. */
const heldCharactersMax = 16_777_216;

/** Converts a stream of typed events. Each is sent with its type as its name, because SDKs skip events without a name. */
export function createEventConverter(format: EventFormat): StreamConverter {
  const sample = createSample();
  let begun = false;
  const { release, held } = createHoldBack(() => begun, heldCharactersMax);
  let written = nothingWritten;
  let heldBefore = '';
  let id: string | undefined;

  return {
    take(data) {
      written = nothingWritten;
      heldBefore = held();
      if (data === '[DONE]') return '';
      const event = parseEvent(data);
      if (event === undefined) return '';
      const taken = format.take(event);
      id ??= answerIdIn(event.response) ?? answerIdIn(event.message);
      sample.add(taken.text);
      begun ||= taken.text !== '' || format.complete();
      written = { text: taken.text, tokens: taken.tokens };
      const { before = [], event: sent } = taken;
      const own = before.map((event) => namedEvent(event)).join('');
      return release(own + (sent === undefined ? '' : namedEvent(sent, sent === event ? data : undefined)));
    },
    begun: () => begun,
    complete: format.complete,
    written: () => written,
    // What was held back was not sent, if no token came before the latest event.
    cut: () =>
      heldBefore +
      format
        .cut()
        .map((event) => namedEvent(event))
        .join(''),
    id: () => id,
    usage: format.usage,
    tokensWritten: sample.tokens,
    text: sample.text,
    end: (tokens) =>
      format
        .end(tokens)
        .map((event) => namedEvent(event))
        .join(''),
  };
}

/** Assembles a whole answer from a stream of typed events. */
export function createEventAssembler(format: EventFormat, builder: EventBuilder): AnswerAssembler {
  const sample = createSample();
  let begun = false;
  let written = nothingWritten;
  let id: string | undefined;

  return {
    take(data) {
      written = nothingWritten;
      if (data === '[DONE]') return;
      const event = parseEvent(data);
      if (event === undefined) return;
      const { text, tokens } = format.take(event);
      builder.take(event);
      id ??= answerIdIn(event.response) ?? answerIdIn(event.message);
      sample.add(text);
      begun ||= text !== '' || format.complete();
      written = { text, tokens };
    },
    cut() {
      format.cut();
      builder.cut();
    },
    begun: () => begun,
    complete: format.complete,
    written: () => written,
    id: () => id,
    usage: format.usage,
    text: sample.text,
    answer: () => builder.answer(format.usage()),
  };
}

/** Undefined for what is no event and no error, and is skipped (contract.md#ms9-what-is-skipped). */
function parseEvent(data: string): TypedEvent | undefined {
  if (data.trim() === '') return undefined;
  const value = parseBackendJson(data, 'an event');
  if (isObject(value) && typeof value.type === 'string' && value.type !== 'error' && value.error == null) {
    return value as TypedEvent; // its type was checked
  }
  if (isOther(value) && readSaid(value) === undefined) return undefined;
  throw notAnAnswer(value, 'an event has no type');
}

/** An event that has one of these and no type is broken: its text would be lost. */
const contents = ['delta', 'message', 'content_block', 'response', 'item', 'part'];

function isOther(value: unknown): boolean {
  if (!isObject(value)) return value === null;
  return value.type == null && value.error == null && contents.every((name) => value[name] === undefined);
}

/** An event by its name and its data, which is on one line. */
export function namedEvent(event: TypedEvent, data = JSON.stringify(event)): string {
  // The type is a part of the framing, and a line end in it would end the line.
  const name = event.type.replace(/[\r\n]/g, ' ');
  return `event: ${name}\ndata: ${/[\r\n]/.test(data) ? JSON.stringify(event) : data}\n\n`;
}

const charactersPerTokenMax = 8;
const sampleCharactersMax = 1_000_000;

/** What the model has written, for counting. */
export function createSample() {
  const written: string[] = [];
  let sampled = 0;
  let characters = 0;
  let pieces = 0;
  return {
    add(text: string): void {
      if (text === '') return;
      characters += text.length;
      pieces += 1;
      if (sampled < sampleCharactersMax) written.push(text);
      sampled += text.length;
    },
    tokens: () => Math.max(pieces, Math.floor(characters / charactersPerTokenMax)),
    text: () => ({ sample: written.join(''), characters }),
  };
}

/** The beginning of a stream, which is held back until the answer proper has begun: until then another backend can take over. */
export function createHoldBack(begun: () => boolean, charactersMax: number) {
  let held = '';
  return {
    /** Takes what an event gives. Returns what may be sent. Fails with `unreadable` if too much is held. */
    release(ready: string): string {
      const all = held + ready;
      held = begun() ? '' : all;
      if (held.length > charactersMax) {
        throw new BackendError('unreadable', `no token within ${charactersMax} characters`);
      }
      return begun() ? all : '';
    },
    held: (): string => held,
  };
}
