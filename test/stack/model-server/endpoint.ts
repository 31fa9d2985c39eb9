import type { z } from 'zod';
import type { Demo } from './model/demo-answers.ts';
import type { TokenSequence } from './prefix-cache.ts';

/** One endpoint of the simulated server. Routing, faults, pace and records know endpoints only by this. */
export interface Endpoint {
  readonly path: string;
  /** Whether `stream` in a body makes it answer with events. */
  readonly streams: boolean;
  readonly errors: ErrorForm;
  /** The header that may carry the API key instead of `authorization`. */
  readonly keyHeader?: string;
  /** Headers of the endpoint's own that calls record. */
  readonly ownHeaders?: readonly string[];
  readonly read: (body: unknown) => Question | QuestionRefusal;
}

/** A body that the endpoint accepts. */
export interface Question {
  readonly model: string;
  readonly answer: (setting: Setting) => ModelAnswer;
}

export interface QuestionRefusal {
  readonly refused: { readonly message: string; readonly param: string };
}

/** What an answer depends on besides its request. `id` is unique among all servers; `created` is in Unix seconds. */
export interface Setting {
  readonly id: string;
  readonly server: string;
  readonly created: number;
  readonly withUsage: boolean;
  readonly ignoresLimit: boolean;
  /** Given if the model answers in plain words. */
  readonly demo?: Demo | undefined;
  /** How many tokens of the prompts are cached. It is asked once, by endpoints that generate. */
  readonly cachedTokensOf: (read: () => readonly TokenSequence[]) => number;
}

export interface ModelAnswer {
  readonly promptTokens: number;
  /** Of the prompt tokens. Default: 0. */
  readonly cachedTokens?: number;
  readonly completionTokens: number;
  /** The whole reply as JSON. */
  readonly whole: () => string;
  /** The same in UTF-8, in pieces, if the server has already written a part of it for an earlier reply. */
  readonly written?: () => readonly Buffer[];
  readonly events: () => Iterable<StreamEvent>;
  readonly form: ReplyForm;
}

/** The text of an event. A function if the text includes how many events were sent before it. */
export type EventText = string | ((sent: number) => string);

/**
 * One server-sent event. Only a `chunk` carries a token. The `open` events come before the tokens of a part of the answer, and the
 * `close` events after them. `finish`, `usage` and `done` end the stream.
 */
export interface StreamEvent {
  readonly kind: 'open' | 'chunk' | 'close' | 'finish' | 'usage' | 'done';
  readonly text: EventText;
}

export interface ErrorForm {
  /** The body of an error. */
  readonly body: (status: number, error: ErrorFields) => object;
  /** The body of a reply that has status 200 and is an error. */
  readonly deadEngine: (message: string) => object;
}

export interface ErrorFields {
  readonly message: string;
  readonly param?: string | null;
  readonly code?: string | null;
}

/** How a reply goes wrong in its own format. */
export interface ReplyForm {
  /** The JSON before each text of the model, with its opening quote. */
  readonly textOpenings: readonly string[];
  /** The beginning of a whole reply, up to its text. */
  readonly wholeUpToText: string;
  /** An event up to its text, and the rest of it. */
  readonly eventUpToText: EventText;
  readonly eventAfterText: string;
  /** An event that carries nothing. */
  readonly emptyEvent: EventText;
  readonly errorEvent: (message: string) => EventText;
  /** The event that ends a stream as failed, if the format has one besides the error event. */
  readonly failedEvent?: (message: string) => EventText;
  /** What a careless reader takes as the end of a complete stream. */
  readonly end: EventText;
}

interface Definition<Body> extends Omit<Endpoint, 'read'> {
  readonly schema: z.ZodType<Body>;
  readonly answer: (body: Body, setting: Setting) => ModelAnswer;
}

export function defineEndpoint<Body extends { model: string }>(definition: Definition<Body>): Endpoint {
  const { schema, answer, ...endpoint } = definition;
  return {
    ...endpoint,
    read(body) {
      const parsed = schema.safeParse(body);
      if (parsed.success) {
        const { data } = parsed;
        return { model: data.model, answer: (setting) => answer(data, setting) };
      }
      const [issue] = parsed.error.issues;
      const param = issue?.path.join('.') || 'body';
      return { refused: { message: `Invalid '${param}': ${issue?.message}.`, param } };
    },
  };
}

export function textOf(text: EventText, sent: number): string {
  return typeof text === 'string' ? text : text(sent);
}
