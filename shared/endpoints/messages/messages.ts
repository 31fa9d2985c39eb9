import { z } from 'zod';
import { type ApiError, errorDetails, errorStatus } from '../../errors.ts';
import { isPromptTooLong, notAnAnswer } from '../answers/backend-error.ts';
import { namedEvent } from '../answers/convert-events.ts';
import { parseBackendJson } from '../answers/parse-backend-json.ts';
import { reportedTokens } from '../answers/with-missing.ts';
import type { AnswerFormat, ErrorFormat, StreamEnding } from '../definition/answer-format.ts';
import { askWhole, type Endpoint, type EndpointHeaders, type RequestFormat } from '../definition/endpoint.ts';
import { isHostedByAnthropic } from '../fields/hosted-tools.ts';
import { meansTheSameInStream, publishedFields } from '../fields/refused-fields.ts';
import { createMessageAssembler } from './assemble-message.ts';
import { cutMessage, messageText, parseMessage, presentMessage } from './message-answers.ts';
import { createMessageConverter, messageAsEvents } from './message-events.ts';
import {
  countRequestSchema,
  estimateMessagePrompt,
  type MessageRequest,
  messageParts,
  messageRequestSchema,
  messagesPrompt,
  readBetas,
} from './message-request.ts';

/** Anthropic's types of errors by status (Anthropic API reference, errors). */
const types: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  409: 'conflict_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
};

/** Errors in Anthropic's shape (contract.md#g5-messages). The `type` of a limit, which this shape has for another purpose, is `limit`. */
export const messageErrors: ErrorFormat = {
  body: (error, { docsUrl, requestId }) => errorOf(error, requestId, errorDetails(error, docsUrl)),
};

function errorOf(error: ApiError, requestId: string, details: Readonly<Record<string, unknown>>) {
  const { code } = error;
  const { type: limit, ...fields } = details;
  const message = isPromptTooLong(error) ? tooLongMessage(error) : error.message;
  const status = errorStatus(code);
  const type = types[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
  const inner = {
    type,
    message,
    code,
    ...fields,
    ...(limit !== undefined && { limit }),
    ...(error.issues.some(({ path }) => path === 'thread') && { details: noThreads }),
  };
  return { type: 'error', error: inner, request_id: requestId };
}

/** Anthropic's words for a conversation that the server would keep: its tool runners go on without one (contract.md#d15-other-clients). */
const noThreads = { error_code: 'thread_unsupported_request', unsupported: ['thread'] };

/** In Anthropic's words: agents compact their history on them (contract.md#ms6-context). */
function tooLongMessage({ fields }: ApiError): string {
  const { prompt_tokens: tokens, context_tokens: most } = fields;
  const numbers = tokens === undefined || most === undefined ? '' : `: ${tokens} tokens > ${most} maximum`;
  return `prompt is too long${numbers}`;
}

/** A complete stream needs no further event, and one that broke off ends with `event: error`. */
export const messageEnding: StreamEnding = {
  complete: () => '',
  broken: (error, requestId) => namedEvent(errorOf(error, requestId, {})),
};

const messageFields = {
  media: ['messages', 'system'],
  holdTools: [],
  outputFormat: ['output_config', 'format'],
  isHosted: isHostedByAnthropic,
} as const;

const request: RequestFormat = {
  schema: messageRequestSchema,
  fields: { ...messageFields, published: publishedFields(messageRequestSchema.shape) },
  promptField: 'messages',
  limitFields: ['max_tokens'],

  ask(message: MessageRequest) {
    const stream = message.stream === true;
    const assembled = !stream && meansTheSameInStream(message, messageRequestSchema.shape);
    return { model: message.model, stream, assembled, includeUsage: true, choices: 1, fields: {} };
  },
  estimatePrompt: estimateMessagePrompt,
  promptOf: messagesPrompt,
  partsOf: messageParts,
};

const answer: AnswerFormat = {
  parse: parseMessage,
  writtenIn: messageText,
  cut: cutMessage,
  present: presentMessage,
  stream: {
    convert: createMessageConverter,
    eventsOf: messageAsEvents,
    assembly: { fields: {}, create: createMessageAssembler },
    ending: () => messageEnding,
  },
};

const messageHeaders: EndpointHeaders = {
  requestId: 'request-id',
  passedOn: ['anthropic-version', 'anthropic-beta'],
  read: { 'anthropic-beta': readBetas },
};

/** `POST /v1/messages`. */
export const messages: Endpoint = {
  name: 'messages',
  path: '/v1/messages',
  request,
  answer,
  errors: messageErrors,
  headers: messageHeaders,
  inBatches: false,
};

const countRequest: RequestFormat = {
  schema: countRequestSchema,
  fields: { ...messageFields, published: publishedFields(countRequestSchema.shape) },
  promptField: 'messages',
  limitFields: [],

  ask: askWhole,
  // It is reserved while it runs, because counting takes a backend or a worker as long as reading the prompt does.
  isFree: true,
  estimatePrompt: estimateMessagePrompt,
  promptOf: messagesPrompt,
};

const countSchema = z.looseObject({ input_tokens: reportedTokens });

const countAnswer: AnswerFormat = {
  parse(text) {
    const value = parseBackendJson(text, 'the answer');
    const parsed = countSchema.safeParse(value);
    if (!parsed.success) throw notAnAnswer(value, 'the answer has no input_tokens', { cause: parsed.error });
    return { text, answer: parsed.data, usage: { promptTokens: 0, completionTokens: 0, cachedTokens: 0 } };
  },
  writtenIn: () => '',
  cut: (counted) => counted,
  present: ({ text }) => text,
  estimate: (promptTokens) => JSON.stringify({ input_tokens: promptTokens }),
};

/** `POST /v1/messages/count_tokens`. */
export const countTokens: Endpoint = {
  name: 'messages',
  path: '/v1/messages/count_tokens',
  request: countRequest,
  answer: countAnswer,
  errors: messageErrors,
  headers: messageHeaders,
  inBatches: false,
};
