import { z } from 'zod';
import { errorCodes } from '../../../shared/errors.ts';

/** Answers of models in OpenAI's shape; whatever else a model server says in them reaches the client untouched. */

const count = z.int().nonnegative();

const tokens = z
  .looseObject({
    prompt_tokens: count,
    completion_tokens: count,
    total_tokens: count.optional(),
  })
  .meta({ description: 'As the model server has counted, or by tokenizer where it has not.' });

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
  model: z.string().meta({ description: 'By the name that was asked for.' }),
};
const finishReason = z
  .string()
  .nullish()
  .meta({ description: '`stop`, `length`, `tool_calls`, `content_filter`; null while it goes on.' });

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
    .meta({ description: 'Empty in the chunk of the usage, which comes last and only if it was asked for.' }),
  usage: tokens.nullish(),
});

const codes = Object.keys(errorCodes) as [string, ...string[]]; // the keys of a table that is not empty

export const streamError = z
  .strictObject({
    error: z.strictObject({ code: z.enum(codes), type: z.string(), message: z.string(), param: z.null() }),
  })
  .meta({ description: 'The last event of a stream that broke off, whatever the code; no `[DONE]` follows.' });
