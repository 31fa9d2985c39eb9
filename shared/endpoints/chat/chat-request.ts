import { z } from 'zod';
import { isObject } from '../../is-object.ts';
import { checkItems, listOf } from '../fields/checked-lists.ts';

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

const isText = (value: unknown) => typeof value === 'string';

const areTexts = (value: unknown) => Array.isArray(value) && value.every(isText);

const stop = z
  .custom<string | string[]>((value) => isText(value) || areTexts(value), 'expected a string or an array of strings')
  .meta({ documentedAs: z.union([z.string(), z.array(z.string())]) });
const logitBias = z
  .custom<Record<string, number>>(
    (value) => isObject(value) && Object.values(value).every((bias) => typeof bias === 'number'),
    'expected an object of numbers',
  )
  .meta({ documentedAs: z.record(z.string(), z.number()) });

const count = z.int().positive();

/** The fields that the service checks and reads in every request. */
export const chatRequestSchema = z
  .looseObject({
    model: z.string().min(1).meta({ description: "A model of the caller's plan." }),
    messages: listOf(message)
      .refine((messages) => messages.length > 0, 'expected at least one message')
      .meta({ documentedAs: z.array(message).min(1) }),
    stream: z.boolean().nullish().meta({ description: 'Whether to stream the response as server-sent events.' }),
    stream_options: z
      .looseObject({ include_usage: z.boolean().nullish() })
      .nullish()
      .meta({ description: 'With `stream` only.' }),
    max_tokens: count.nullish().meta({ description: 'Maximum number of output tokens for each choice.' }),
    max_completion_tokens: count
      .nullish()
      .meta({ description: 'Same as `max_tokens`. If both are set, the larger counts.' }),
    n: count.max(128).nullish().meta({ description: 'Number of choices to generate.' }),
    temperature: z.number().min(0).max(2).nullish(),
    top_p: z.number().min(0).max(1).nullish(),
    presence_penalty: z.number().min(-2).max(2).nullish(),
    frequency_penalty: z.number().min(-2).max(2).nullish(),
    stop: stop.nullish(),
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

/** OpenAI allows 4 for `stop`. Model servers search for each of them after every token. */
const textsMax = 64;
const areFewTexts = (value: unknown) => Array.isArray(value) && value.length <= textsMax && areTexts(value);

const fewStops = z
  .custom<string | string[]>(
    (value) => isText(value) || areFewTexts(value),
    `expected a string or an array of at most ${textsMax} strings`,
  )
  .meta({ documentedAs: z.union([z.string(), z.array(z.string()).max(textsMax)]) });
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
  stop: fewStops.nullish(),
  service_tier: z.string().nullish().meta({ description: 'Accepted, but not sent to the model server.' }),
  store: z.boolean().nullish(),
  verbosity: z.string().nullish(),
  web_search_options: object.nullish(),
});

/** The texts in the messages of a request that was accepted. */
export const queuedMessagesSchema = z.looseObject({
  messages: z.array(
    z.looseObject({
      content: z.union([z.string(), z.array(z.looseObject({ text: z.string().optional() })), z.null()]).optional(),
    }),
  ),
});
