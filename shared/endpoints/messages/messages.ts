import type { AnswerFormat } from '../definition/answer-format.ts';
import type { Endpoint, EndpointHeaders } from '../definition/endpoint.ts';
import type { RequestFormat } from '../definition/request-format.ts';
import { meansTheSameInStream } from '../fields/extra-fields.ts';
import { isHostedByAnthropic } from '../fields/hosted-tools.ts';
import { publishedFields } from '../fields/refused-fields.ts';
import { generationCost } from '../tokens/request-cost.ts';
import { createMessageAssembler } from './assemble-message.ts';
import { readBetas } from './beta-names.ts';
import { cutMessage, type MessageAnswer, messageText, parseMessage, presentMessage } from './message-answers.ts';
import { messageEnding, messageErrors } from './message-errors.ts';
import { createMessageConverter } from './message-events.ts';
import { estimateMessagePrompt, messagesPrompt } from './message-prompt.ts';
import { type MessageRequest, messageRequestSchema } from './message-request.ts';
import { messageAsEvents } from './whole-as-events.ts';

export const messageFields = {
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
  cost(message: MessageRequest, { text, model }) {
    const promptTokens = estimateMessagePrompt(message, text);
    return generationCost(message, {
      promptTokens,
      promptField: request.promptField,
      limitFields: request.limitFields,
      model,
    });
  },
  estimatePrompt: estimateMessagePrompt,
  promptOf: messagesPrompt,
  choicesOf: () => 1,
};

const answer: AnswerFormat = {
  parse: parseMessage,
  writtenIn: (message: MessageAnswer) => messageText(message),
  cut: (message: MessageAnswer, share) => cutMessage(message, share),
  present: (message: MessageAnswer, tokens, context) => presentMessage(message, tokens, context),
  stream: {
    convert: createMessageConverter,
    eventsOf: (message: MessageAnswer) => messageAsEvents(message),
    assembly: { fields: {}, create: createMessageAssembler },
    ending: () => messageEnding,
  },
};

export const messageHeaders: EndpointHeaders = {
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
