import { z } from 'zod';
import { checkItems, listOf } from '../fields/checked-lists.ts';
import { streamFlag } from '../fields/common-fields.ts';
import { refusedByDefault } from '../fields/refused-fields.ts';

/** The schemas of requests of `POST /v1/messages`, as far as the service reads them. Source: Anthropic's API reference and SDKs. */

const block = z.looseObject({ type: z.string(), text: z.string().optional() });

const content = z
  .unknown()
  .superRefine((value, ctx) => {
    if (Array.isArray(value)) checkItems(value, block, ctx);
    else if (typeof value !== 'string') ctx.addIssue('expected a string or an array');
  })
  .meta({ documentedAs: z.union([z.string(), z.array(block)]) });

/** Messages of the role `system` are for instructions within a conversation. */
const message = z.looseObject({ role: z.enum(['user', 'assistant', 'system']), content });

const object = z.looseObject({});
const nullableObject = object.nullish();

const prompt = {
  model: z.string().min(1).meta({ description: "A model of the caller's plan that offers `messages`." }),
  messages: listOf(message)
    .refine((messages) => messages.length > 0, 'expected at least one message')
    .meta({ documentedAs: z.array(message).min(1) }),
  system: content.optional(),
  tools: listOf(z.looseObject({ type: z.string().nullish(), name: z.string().optional() })).nullish(),
  tool_choice: nullableObject,
  thinking: nullableObject,
  cache_control: nullableObject,
  context_management: nullableObject,
  output_config: nullableObject,
  output_format: z.looseObject({ type: z.literal('json_schema', 'expected "json_schema"') }).nullish(),
  speed: z.string().nullish().meta({ description: refusedByDefault }),
};

/**
 * All fields of Anthropic's published description, of its current and its earlier version, and of its beta those that only change the
 * prompt or the format of the answer.
 */
export const messageRequestSchema = z.looseObject({
  ...prompt,
  max_tokens: z.int().positive().meta({ description: 'Maximum number of output tokens.' }),
  container: z
    .union([z.string(), object], { error: 'expected a string or an object' })
    .nullish()
    .meta({ description: refusedByDefault }),
  diagnostics: nullableObject,
  inference_geo: z.string().nullish().meta({ description: refusedByDefault }),
  metadata: nullableObject,
  service_tier: z.string().nullish().meta({ description: 'Accepted, but not sent to the model server.' }),
  stop_sequences: z.array(z.string()).max(64).nullish(),
  stream: streamFlag.nullish(),
  thread: nullableObject.meta({ description: refusedByDefault }),
  temperature: z.number().min(0).max(2).nullish(),
  top_k: z.int().nullish(),
  top_p: z.number().min(0).max(1).nullish(),
});

export type MessageRequest = z.infer<typeof messageRequestSchema>;

/** The same of `POST /v1/messages/count_tokens`. */
export const countRequestSchema = z.looseObject(prompt);

export type CountRequest = z.infer<typeof countRequestSchema>;
