import { z } from 'zod';
import { errorCodes } from '../../../shared/errors.ts';

/** Answers of models in OpenAI's format. Other fields from a model server reach the client unchanged. */

const count = z.int().nonnegative();

const tokens = z
  .looseObject({
    prompt_tokens: count,
    completion_tokens: count,
    total_tokens: count.optional(),
  })
  .meta({ description: 'As counted by the model server, or by a tokenizer if the model server reports no counts.' });

const toolCall = z.looseObject({
  id: z.string().optional(),
  type: z.string().optional(),
  function: z.looseObject({ name: z.string().optional(), arguments: z.string().optional() }).optional(),
});
const written = z.looseObject({
  role: z.string().nullish(),
  content: z.string().nullish(),
  tool_calls: z.array(toolCall).nullish(),
});
const head = {
  id: z.string().optional(),
  object: z.string().optional(),
  created: z.int().optional().meta({ description: 'Seconds since 1970, UTC.' }),
  model: z.string().meta({ description: 'The requested model name.' }),
};
const finishReason = z
  .string()
  .nullish()
  .meta({ description: '`stop`, `length`, `tool_calls`, `content_filter`; null before the answer is complete.' });

export const chatCompletion = z.looseObject({
  ...head,
  choices: z.array(
    z.looseObject({ index: count.optional(), message: written.optional(), finish_reason: finishReason }),
  ),
  usage: tokens,
});

export const chatCompletionChunk = z.looseObject({
  ...head,
  choices: z
    .array(z.looseObject({ index: count.optional(), delta: written.nullish(), finish_reason: finishReason }))
    .meta({ description: 'Empty in the usage chunk, which is the last one and sent only on request.' }),
  usage: tokens.nullish(),
});

const codes = Object.keys(errorCodes) as [string, ...string[]]; // the table is not empty

export const streamError = z
  .strictObject({
    error: z.strictObject({ code: z.enum(codes), type: z.string(), message: z.string(), param: z.null() }),
  })
  .meta({ description: 'The last event of an interrupted stream, for every code; no `[DONE]` follows.' });
