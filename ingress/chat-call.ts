import { chatRequestSchema } from '../shared/chat-completion.ts';
import { validationError } from '../shared/errors.ts';
import { faultsOf } from '../shared/faults.ts';
import type { JsonBody } from './json-body.ts';

/** A chat completion as it will be queued; `body` is the client's object as JSON text, without its `model`. */
export type ChatCall = { model: string; stream: boolean; includeUsage: boolean; body: string };

/**
 * Checks the body and prepares what the backend will get: everything the client sent, and the usage of a stream always
 * asked for (API D5). Fails with `VALIDATION_ERROR` naming each offending field.
 */
export function parseChatCall(sent: JsonBody): ChatCall {
  const parsed = chatRequestSchema.safeParse(sent.value);
  if (!parsed.success) throw validationError(faultsOf(parsed.error));
  const { model, stream, stream_options } = parsed.data;
  return {
    model,
    stream: stream === true,
    includeUsage: stream_options?.include_usage === true,
    body: backendBody(sent, { askForUsage: stream === true }),
  };
}

function backendBody(sent: JsonBody, { askForUsage }: { askForUsage: boolean }): string {
  try {
    const body = exactly(sent);
    const usage = askForUsage ? { stream_options: { ...body.stream_options, include_usage: true } } : {};
    return JSON.stringify({ ...body, ...usage, model: undefined });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw validationError([{ path: 'body', message: 'is nested too deeply' }], error);
  }
}

/** Numbers that a JavaScript number may not hold: more digits than it keeps, or an exponent beyond its own. */
const inexactNumber = /\d[\d.]{15}|\d[eE][+-]?\d{3}/;

/** As the schema has seen it. */
type SentObject = { stream_options?: object | null };

// TypeScript's library does not describe these parts of JSON yet (ECMAScript, "JSON.parse source text access").
const sourceAccess = JSON as unknown as {
  rawJSON: (text: string) => unknown;
  parse: (text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown) => SentObject;
};

/** The object with each number as it was written, so that a 64-bit seed reaches the backend as the client sent it. */
function exactly({ value, text }: JsonBody): SentObject {
  if (!inexactNumber.test(text)) return value;
  return sourceAccess.parse(text, (_key, item, { source }) =>
    typeof item === 'number' && source !== undefined ? sourceAccess.rawJSON(source) : item,
  );
}
