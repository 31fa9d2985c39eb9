import { z } from 'zod';
import { checkItems, listOf } from '../fields/checked-lists.ts';
import {
  areFewTexts,
  fewStops,
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
