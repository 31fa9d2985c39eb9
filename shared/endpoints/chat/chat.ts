import { createChoicesAssembler } from '../choices/assemble-choices.ts';
import { choicesAnswers } from '../choices/choices-answers.ts';
import type { ChoicesKind } from '../choices/required-properties.ts';
import { type Endpoint, noHeaders } from '../definition/endpoint.ts';
import type { RequestFormat } from '../definition/request-format.ts';
import { withUsageAtEnd } from '../fields/common-fields.ts';
import { choicesMax, readOutputLimit } from '../fields/output-limit.ts';
import { publishedFields } from '../fields/refused-fields.ts';
import { generationCost } from '../tokens/request-cost.ts';
import { createChatChoice } from './assemble-choice.ts';
import { canBeAssembled } from './can-be-assembled.ts';
import { type ChatRequest, publishedRequestSchema } from './chat-request.ts';
import { isPlainRequest } from './is-plain-request.ts';
import { chatPrompt, estimateChatPrompt } from './prompt-size.ts';

const request: RequestFormat = {
  schema: publishedRequestSchema,
  fields: {
    published: publishedFields(publishedRequestSchema.shape),
    media: ['messages', 'prediction'],
    holdTools: ['messages'],
    outputFormat: ['response_format'],
  },
  isPlain: isPlainRequest,
  promptField: 'messages',
  limitFields: ['max_tokens', 'max_completion_tokens'],

  ask(chat: ChatRequest) {
    const stream = chat.stream === true;
    const assembled = !stream && canBeAssembled(chat);
    return {
      model: chat.model,
      stream,
      assembled,
      includeUsage: chat.stream_options?.include_usage === true,
      choices: chat.n ?? 1,
      // The client's fields would contradict the stream that the worker requests.
      fields: assembled ? { stream_options: undefined } : {},
      changes: stream ? { stream_options: withUsageAtEnd } : {},
    };
  },

  cost(chat: ChatRequest, { text, model }) {
    const promptTokens = estimateChatPrompt(chat, text);
    return generationCost(chat, {
      promptTokens,
      promptField: request.promptField,
      limitFields: request.limitFields,
      model,
    });
  },
  estimatePrompt: estimateChatPrompt,

  promptOf: chatPrompt,
  choicesOf: (payload) => readOutputLimit({ ...payload }, { outputTokensMax: Number.POSITIVE_INFINITY }).choices.value,
};

export const chatKind: ChoicesKind = {
  object: 'chat.completion',
  chunkObject: 'chat.completion.chunk',
  idPrefix: 'chatcmpl-',
  choicesMax,
  choice: { message: {}, finish_reason: null, logprobs: null },
  chunkChoice: { delta: {}, finish_reason: null },
  message: { role: 'assistant', content: null, refusal: null },
  // With the role, for a choice of which nothing has come yet.
  ended: { delta: { role: 'assistant' } },
};

/** `POST /v1/chat/completions`. */
export const chat: Endpoint = {
  name: 'chat',
  path: '/v1/chat/completions',
  request,
  answer: choicesAnswers(chatKind, {
    fields: { stream_options: { include_usage: true } },
    create: createChoicesAssembler(chatKind, createChatChoice),
  }),
  headers: noHeaders,
  inBatches: true,
};
