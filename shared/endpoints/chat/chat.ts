import { createChoicesAssembler } from '../chat-stream/assemble-choices.ts';
import { choicesAnswers } from '../chat-stream/choices-answers.ts';
import type { ChoicesKind } from '../chat-stream/present-chunks.ts';
import { type Endpoint, noHeaders, type RequestFormat } from '../definition/endpoint.ts';
import { withUsageAtEnd } from '../fields/common-fields.ts';
import { choicesMax, readOutputLimit } from '../fields/output-limit.ts';
import { defaultExtraFields, publishedFields } from '../fields/refused-fields.ts';
import { createChatChoice } from './assemble-choice.ts';
import {
  type ChatRequest,
  chatParts,
  chatPrompt,
  estimateChatPrompt,
  isPlainRequest,
  publishedRequestSchema,
} from './chat-request.ts';

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

  estimatePrompt: estimateChatPrompt,

  promptOf: chatPrompt,
  partsOf: chatParts,
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

/**
 * Returns whether the worker may request a stream from the backend and assemble the complete response from it: all fields of the request
 * must mean the same in a stream. An unknown field may not work in a stream (vLLM's `use_beam_search`, `prompt_logprobs`), or may return
 * parts that cannot be assembled (`return_token_ids`). So with a single unknown field that is not null, the request is sent unchanged
 * (contract.md#q6-whole-answers-as-streams).
 */
export function canBeAssembled(request: ChatRequest): boolean {
  const { modalities } = request;
  const isText =
    modalities == null || (Array.isArray(modalities) && modalities.every((modality) => modality === 'text'));
  return isText && Object.entries(request).every(([field, value]) => value == null || meansTheSame.has(field));
}

/** OpenAI's fields, except `audio`, whose format differs in a stream, and `moderation`, whose results differ there. */
const openai = [
  ...['model', 'messages', 'stream', 'stream_options', 'modalities', 'n', 'seed', 'stop', 'user', 'store', 'metadata'],
  ...['max_tokens', 'max_completion_tokens', 'temperature', 'top_p', 'presence_penalty', 'frequency_penalty'],
  ...['logit_bias', 'logprobs', 'top_logprobs', 'response_format', 'prediction', 'reasoning_effort', 'verbosity'],
  ...['tools', 'tool_choice', 'parallel_tool_calls', 'functions', 'function_call', 'web_search_options'],
  ...['service_tier', 'safety_identifier', 'prompt_cache_key', 'prompt_cache_options', 'prompt_cache_retention'],
];

/**
 * Further fields of model servers for sampling, constraints and templates, which apply before there is anything to stream. Sources:
 * `ChatCompletionRequest` of vLLM 0.10 and of SGLang 0.5.9, the README of llama.cpp's server.
 */
const modelServers = [
  ...['chat_template', 'mm_processor_kwargs', 'guided_regex', 'guided_grammar', 'guided_decoding_backend'],
  ...['guided_whitespace_pattern', 'structural_tag', 'regex', 'ebnf', 'grammar', 'stop_regex'],
  ...['cache_salt', 'cache_prompt', 'priority'],
];

const meansTheSame = new Set([...openai, ...defaultExtraFields, ...modelServers]);
