import { z } from 'zod';
import { notAnAnswer } from '../answers/backend-said.ts';
import { parseBackendJson } from '../answers/parse-backend-json.ts';
import { reportedTokens } from '../answers/reported-tokens.ts';
import type { AnswerFormat } from '../definition/answer-format.ts';
import type { Endpoint } from '../definition/endpoint.ts';
import type { RequestFormat } from '../definition/request-format.ts';
import { publishedFields } from '../fields/refused-fields.ts';
import { promptCost } from '../tokens/request-cost.ts';
import { messageErrors } from './message-errors.ts';
import { estimateMessagePrompt, messagesPrompt } from './message-prompt.ts';
import { type CountRequest, countRequestSchema } from './message-request.ts';
import { messageFields, messageHeaders } from './messages.ts';

const request: RequestFormat = {
  schema: countRequestSchema,
  fields: { ...messageFields, published: publishedFields(countRequestSchema.shape) },
  promptField: 'messages',
  limitFields: [],

  ask: ({ model }: CountRequest) => ({
    model,
    stream: false,
    includeUsage: false,
    assembled: false,
    choices: 1,
    fields: {},
  }),
  // It is reserved while it runs, because counting takes a backend or a worker as long as reading the prompt does.
  isFree: true,
  cost: (asked: CountRequest, { text }) =>
    promptCost({ promptTokens: estimateMessagePrompt(asked, text), promptField: request.promptField }),
  estimatePrompt: estimateMessagePrompt,
  promptOf: messagesPrompt,
  choicesOf: () => 1,
};

const countSchema = z.looseObject({ input_tokens: reportedTokens });

const answer: AnswerFormat = {
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
  request,
  answer,
  errors: messageErrors,
  headers: messageHeaders,
  inBatches: false,
};
