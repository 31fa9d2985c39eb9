import { z } from 'zod';

/**
 * The shapes of `POST /v1/chat/completions`, as far as the service looks into them. Known fields are checked, unknown ones
 * pass through in both directions. Source: the OpenAI API reference, chat completions.
 */

const roles = ['system', 'developer', 'user', 'assistant', 'tool', 'function'] as const;

const contentPart = z.looseObject({ type: z.string(), text: z.string().optional() });

const message = z
  .looseObject({
    role: z.enum(roles),
    content: z
      .union([z.string(), z.array(contentPart), z.null()], { error: 'expected a string or an array' })
      .optional(),
    name: z.string().optional(),
    tool_calls: z.array(z.looseObject({})).nullish(),
    tool_call_id: z.string().optional(),
  })
  .refine(({ role, content }) => content != null || role === 'assistant' || role === 'function', {
    path: ['content'],
    error: 'expected a string or an array',
  });

const count = z.int().positive();

export const chatRequestSchema = z
  .looseObject({
    model: z.string().min(1),
    messages: z.array(message).min(1),
    stream: z.boolean().nullish(),
    stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
    max_tokens: count.nullish(),
    max_completion_tokens: count.nullish(),
    n: count.max(128).nullish(),
    temperature: z.number().min(0).max(2).nullish(),
    top_p: z.number().min(0).max(1).nullish(),
    presence_penalty: z.number().min(-2).max(2).nullish(),
    frequency_penalty: z.number().min(-2).max(2).nullish(),
    stop: z.union([z.string(), z.array(z.string())], { error: 'expected a string or an array of strings' }).nullish(),
    logprobs: z.boolean().nullish(),
    top_logprobs: z.int().min(0).max(20).nullish(),
    logit_bias: z.record(z.string(), z.number()).nullish(),
    seed: z.number().nullish(),
    user: z.string().nullish(),
    tools: z.array(z.looseObject({ type: z.string() })).nullish(),
    tool_choice: z.union([z.string(), z.looseObject({})], { error: 'expected a string or an object' }).nullish(),
    parallel_tool_calls: z.boolean().nullish(),
    response_format: z.looseObject({ type: z.string() }).nullish(),
  })
  .refine(({ stream, stream_options }) => stream === true || stream_options == null, {
    path: ['stream_options'],
    error: 'is only allowed with stream: true',
  });

export type ChatRequest = z.infer<typeof chatRequestSchema>;

/** Tokens as a backend reports them. */
export const chatUsageSchema = z.looseObject({
  prompt_tokens: z.int().nonnegative(),
  completion_tokens: z.int().nonnegative(),
});

/** A whole answer. `usage` is checked apart: one that cannot be read is as good as none. */
export const chatAnswerSchema = z.looseObject({
  model: z.string().optional(),
  choices: z.array(z.looseObject({ message: z.looseObject({}).optional() })),
});

/** One event of a streamed answer. */
export const chatChunkSchema = z.looseObject({
  model: z.string().optional(),
  choices: z.array(
    z.looseObject({
      index: z.int().nonnegative().default(0),
      delta: z.looseObject({}).nullish(),
      finish_reason: z.string().nullish(),
    }),
  ),
});

export type ChatChunk = z.infer<typeof chatChunkSchema>;

/** A backend's own error, in a body or in a stream's event, in one of the shapes that model servers use. */
export const chatErrorSchema = z.union([
  z.looseObject({ error: z.looseObject({ message: z.string() }) }).transform(({ error }) => error.message),
  z.looseObject({ error: z.string() }).transform(({ error }) => error),
  z.looseObject({ message: z.string() }).transform(({ message }) => message),
  z.looseObject({ detail: z.string() }).transform(({ detail }) => detail),
]);
