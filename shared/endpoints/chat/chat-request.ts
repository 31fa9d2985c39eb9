import { z } from 'zod';
import { isObject } from '../../json/json-values.ts';
import type { Prompt, PromptParts } from '../definition/endpoint.ts';
import {
  areFewTexts,
  checkItems,
  fewStops,
  listOf,
  logitBias,
  penalty,
  streamFlag,
  streamOptions,
  temperature,
  textsMax,
  topP,
} from '../fields/common-fields.ts';
import { choicesMax } from '../fields/output-limit.ts';
import { refusedByDefault } from '../fields/refused-fields.ts';
import {
  estimateWithMedia,
  type MediaSum,
  type ReadMedia,
  readAll,
  readEach,
  readField,
  readOpenAiMedia,
  tokensOfMessages,
  withoutMedia,
  withoutOpaque,
} from '../tokens/media-tokens.ts';
import { fieldTexts, textsIn, toolTexts, withLeading } from '../tokens/prompt-texts.ts';

/**
 * The schemas of requests of `POST /v1/chat/completions`, as far as the service reads them. Source: the OpenAI API reference, chat
 * completions.
 */

export const roles = ['system', 'developer', 'user', 'assistant', 'tool', 'function'] as const;

const contentPart = z.looseObject({ type: z.string(), text: z.string().optional() });

const content = z
  .unknown()
  .superRefine((value, ctx) => {
    if (Array.isArray(value)) checkItems(value, contentPart, ctx);
    else if (typeof value !== 'string' && value != null) ctx.addIssue('expected a string or an array');
  })
  .meta({ documentedAs: z.union([z.string(), z.array(contentPart), z.null()]) });

const message = z
  .looseObject({
    role: z.enum(roles),
    content: content.optional(),
    name: z.string().optional(),
    tool_calls: listOf(z.looseObject({})).nullish(),
    tool_call_id: z.string().optional(),
  })
  .refine(({ role, content }) => content != null || role === 'assistant' || role === 'function', {
    path: ['content'],
    error: 'expected a string or an array',
  });

const count = z.int().positive();

/** The fields that the service checks and reads in every request. */
export const chatRequestSchema = z
  .looseObject({
    model: z.string().min(1).meta({ description: "A model of the caller's plan." }),
    messages: listOf(message)
      .refine((messages) => messages.length > 0, 'expected at least one message')
      .meta({ documentedAs: z.array(message).min(1) }),
    stream: streamFlag.nullish(),
    stream_options: streamOptions.nullish(),
    max_tokens: count.nullish().meta({ description: 'Maximum number of output tokens for each choice.' }),
    max_completion_tokens: count
      .nullish()
      .meta({ description: 'Same as `max_tokens`. If both are set, the larger counts.' }),
    n: count.max(choicesMax).nullish().meta({ description: 'Number of choices to generate.' }),
    temperature: temperature.nullish(),
    top_p: topP.nullish(),
    presence_penalty: penalty.nullish(),
    frequency_penalty: penalty.nullish(),
    stop: fewStops.nullish(),
    logprobs: z.boolean().nullish(),
    top_logprobs: z.int().min(0).max(20).nullish(),
    logit_bias: logitBias.nullish(),
    seed: z.number().nullish(),
    user: z.string().nullish(),
    tools: listOf(z.looseObject({ type: z.string() })).nullish(),
    tool_choice: z.union([z.string(), z.looseObject({})], { error: 'expected a string or an object' }).nullish(),
    parallel_tool_calls: z.boolean().nullish(),
    response_format: z.looseObject({ type: z.string() }).nullish(),
  })
  .refine(({ stream, stream_options }) => stream === true || stream_options == null, {
    path: ['stream_options'],
    error: 'is only allowed with stream: true',
  });

export type ChatRequest = z.infer<typeof chatRequestSchema>;

const object = z.looseObject({});

const modalities = z
  .custom<string[]>(areFewTexts, `expected an array of at most ${textsMax} strings`)
  .meta({ documentedAs: z.array(z.string()).max(textsMax) });

/**
 * All fields of OpenAI's published description of the endpoint (openai/openai-openapi, `CreateChatCompletionRequest`); the official SDK's
 * parameter types have the same fields.
 */
export const publishedRequestSchema = chatRequestSchema.safeExtend({
  audio: object.nullish(),
  function_call: z.union([z.string(), object], { error: 'expected a string or an object' }).nullish(),
  functions: listOf(object).nullish(),
  metadata: object.nullish(),
  modalities: modalities.nullish(),
  moderation: z.unknown().optional(),
  prediction: object.nullish(),
  prompt_cache_key: z.string().nullish(),
  prompt_cache_options: object.nullish(),
  prompt_cache_retention: z.string().nullish(),
  // SGLang also accepts a number.
  reasoning_effort: z.union([z.string(), z.number()], { error: 'expected a string or a number' }).nullish(),
  safety_identifier: z.string().nullish(),
  service_tier: z.string().nullish().meta({ description: 'Accepted, but not sent to the model server.' }),
  store: z.boolean().nullish(),
  verbosity: z.string().nullish(),
  web_search_options: object.nullish().meta({ description: refusedByDefault }),
});

/**
 * Returns whether a request has the usual shape: a model, messages of text, and the most common settings, all with valid values. Neither
 * the schema nor the plan file's lists can find an issue in it, so both are skipped, which saves 16 of 24 µs. If false, the request may be
 * valid or not.
 */
export function isPlainRequest(value: object): value is ChatRequest {
  if (!isOf(plainFields, value)) return false;
  const { stream, stream_options: options } = value as Record<string, unknown>;
  return 'model' in value && 'messages' in value && (stream === true || options === undefined);
}

type Check = (value: unknown) => boolean;

const isText: Check = (value) => typeof value === 'string';
const isBoolean: Check = (value) => typeof value === 'boolean';
const isNumberOf =
  (min: number, max: number): Check =>
  (value) =>
    typeof value === 'number' && value >= min && value <= max;
const isCountTo =
  (max: number): Check =>
  (value) =>
    Number.isSafeInteger(value) && isNumberOf(1, max)(value);

/** Creates a table without a prototype, because clients choose the names that are looked up. */
const table = (checks: Record<string, Check>): Readonly<Record<string, Check>> =>
  Object.assign(Object.create(null) as Record<string, Check>, checks);

const known = new Set<unknown>(roles);
const plainMessage = table({ role: (value) => known.has(value), content: isText, name: isText });

const plainStreamOptions = table({ include_usage: isBoolean });

/** Returns whether each field of this object is in the table, with an allowed value. */
function isOf(fields: Readonly<Record<string, Check>>, value: unknown): value is object {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  for (const name in value) if (fields[name]?.((value as Record<string, unknown>)[name]) !== true) return false;
  return true;
}

const isPlainMessage = (value: unknown) => isOf(plainMessage, value) && 'role' in value && 'content' in value;

const plainFields = table({
  model: (value) => isText(value) && value !== '',
  messages: (value) => Array.isArray(value) && value.length > 0 && value.every(isPlainMessage),
  stream: isBoolean,
  stream_options: (value) => isOf(plainStreamOptions, value),
  max_tokens: isCountTo(Number.MAX_SAFE_INTEGER),
  max_completion_tokens: isCountTo(Number.MAX_SAFE_INTEGER),
  n: isCountTo(128),
  temperature: isNumberOf(0, 2),
  top_p: isNumberOf(0, 1),
  presence_penalty: isNumberOf(-2, 2),
  frequency_penalty: isNumberOf(-2, 2),
  user: isText,
});

/** Estimates the number of tokens in the prompt of a chat request, valid or not. `text` is the request as JSON. */
export function estimateChatPrompt(request: object, text: string): number {
  const estimate = estimateWithMedia(request, { text, fields: ['messages'], readMedia });
  return estimate + tokensOfMessages(request, 'messages');
}

/** What a template or a server may write into the prompt, besides the messages and the tools. */
const otherFields = ['documents', 'chat_template_kwargs', 'response_format'] as const;

type PromptFields = Partial<Record<'messages' | 'tools' | 'functions' | (typeof otherFields)[number], unknown>>;

/** The texts of a payload, for the tokenizer, and the tokens of its media. */
export function chatPrompt(payload: PromptFields): Prompt {
  const media: MediaSum = { tokens: tokensOfMessages(payload, 'messages'), texts: [] };
  const shown = withoutMedia(payload.messages, readMedia, media);
  const messages = Array.isArray(shown) ? shown.filter(isObject) : [];
  // A model gets the parts of a message without anything between them.
  const texts = messages.map((message) => textsIn(message, textFields).join(''));
  const calls = messages.flatMap((message) => textsIn(message.tool_calls, callFields));
  const tools = [...toolTexts(payload.tools), ...toolTexts(payload.functions)];
  const others = fieldTexts(payload, otherFields);
  return { texts: [...texts, ...calls, ...tools, ...others, ...media.texts], tokens: media.tokens };
}

/** Templates write tools and the first system messages before all others. */
export function chatParts({ tools, functions, messages }: PromptFields): PromptParts {
  const { leading, others } = withLeading(messages);
  return { head: [tools, functions, ...leading], messages: others };
}

const textFields = new Set(['content', 'text', 'refusal', 'reasoning', 'reasoning_content']);
const callFields = new Set(['function', 'custom']);

const readMedia: ReadMedia = (part) => readOpenAiMedia(part) ?? readReasoning(part);

/** Of an assistant's message. */
const readReasoning: ReadMedia = (message) =>
  message.role === 'assistant' ? readAll(message, [readDetails, readThinking, readCalls, readSignature]) : undefined;

/** Encrypted reasoning and signatures in the form of OpenRouter (its guide "Reasoning tokens"). */
const readDetails: ReadMedia = (message) =>
  readEach(message, 'reasoning_details', (detail) =>
    withoutOpaque(detail, detail.type === 'reasoning.encrypted' ? 'data' : 'signature'),
  );

/** Anthropic's parts in the form of LiteLLM (its guide "Reasoning content"). */
const readThinking: ReadMedia = (message) =>
  readEach(message, 'thinking_blocks', (block) =>
    withoutOpaque(block, block.type === 'redacted_thinking' ? 'data' : 'signature'),
  );

const readCalls: ReadMedia = (message) => readEach(message, 'tool_calls', (call) => readSignature(call));

/** The signature that Google's API returns with a message or a call (its guide "Thought signatures"). */
const readSignature: ReadMedia = (part) =>
  readField(part, 'extra_content', (extra) =>
    readField(extra, 'google', (google) => withoutOpaque(google, 'thought_signature')),
  );
