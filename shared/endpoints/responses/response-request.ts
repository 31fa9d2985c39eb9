import { z } from 'zod';
import { isObject } from '../../json/json-values.ts';
import { mapped } from '../answers/with-missing.ts';
import type { Prompt, PromptParts } from '../definition/endpoint.ts';
import { areFewTexts, listOf, streamFlag, temperature, topP } from '../fields/common-fields.ts';
import { configurationUpdate } from '../fields/hosted-tools.ts';
import { tokensByTiles } from '../tokens/image-tokens.ts';
import {
  estimateWithMedia,
  isBase64,
  type MediaSum,
  type ReadMedia,
  readOpenAiMedia,
  tokensOfMessages,
  tokensPerMessage,
  withoutMedia,
  withoutOpaque,
} from '../tokens/media-tokens.ts';
import { fieldTexts, textsIn, toolTexts, withLeading } from '../tokens/prompt-texts.ts';

const object = z.looseObject({});
const nullableObject = object.nullish();

const noState = 'is not supported: this service stores no responses';

/** An item of an earlier response, by its id. Its type may be left out. */
function isReference(item: unknown): boolean {
  if (!isObject(item)) return false;
  const { type, role, id } = item;
  return type === 'item_reference' || (type == null && role === undefined && id !== undefined);
}

/** An output format that no check and no model server would find. */
function setsFormat(item: unknown): boolean {
  return isObject(item) && item.type === configurationUpdate && item.text != null;
}

/** An item with a role is a message, also without a type, but llama.cpp refuses one of the assistant without it. */
export function withTypes(input: unknown): unknown {
  const isUntyped = (item: unknown) => isObject(item) && item.type == null && item.role != null;
  return Array.isArray(input)
    ? mapped(input, (item) => (isUntyped(item) ? { ...item, type: 'message' } : item))
    : input;
}

const input = z
  .unknown()
  .superRefine((value, ctx) => {
    if (typeof value === 'string') return;
    const items = listOf(object).safeParse(value);
    if (!Array.isArray(value)) ctx.addIssue('expected a string or an array');
    for (const { path, message } of items.error?.issues ?? []) {
      if (path.length > 0) ctx.addIssue({ code: 'custom', path: [...path], message });
    }
    const stored = Array.isArray(value) ? value.findIndex(isReference) : -1;
    if (stored >= 0) ctx.addIssue({ code: 'custom', path: [stored], message: noState });
    const format = Array.isArray(value) ? value.findIndex(setsFormat) : -1;
    if (format >= 0) ctx.addIssue({ code: 'custom', path: [format, 'text'], message: 'is only read outside of items' });
  })
  .meta({ documentedAs: z.union([z.string(), z.array(object)]) });

const texts = z
  .custom<string[]>(areFewTexts, 'expected an array of at most 64 strings')
  .meta({ documentedAs: z.array(z.string()).max(64) });

/** A variable could also be a part with an address, which is not checked here. */
const promptVariables = z
  .custom<Record<string, string>>(
    (value) => isObject(value) && Object.values(value).every((variable) => typeof variable === 'string'),
    'expected an object of strings',
  )
  .meta({ documentedAs: z.record(z.string(), z.string()) });

/**
 * All fields of OpenAI's published description of `POST /v1/responses` (openai/openai-openapi, `CreateResponse`). The service keeps no
 * state, so fields that refer to a stored response, or ask to store one, are refused.
 */
export const responseRequestSchema = z.looseObject({
  model: z.string().min(1).meta({ description: "A model of the caller's plan that offers `responses`." }),
  input,
  background: z.literal(false, { error: noState }).nullish(),
  context_management: listOf(object).nullish(),
  conversation: z.null({ error: noState }).optional(),
  include: texts.nullish(),
  instructions: z.string().nullish(),
  max_output_tokens: z
    .int()
    .positive()
    .nullish()
    .meta({ description: 'Maximum number of output tokens, with reasoning.' }),
  max_tool_calls: z.int().positive().nullish(),
  metadata: nullableObject,
  moderation: z.unknown().optional(),
  parallel_tool_calls: z.boolean().nullish(),
  previous_response_id: z.null({ error: noState }).optional(),
  prompt: z.looseObject({ variables: promptVariables.nullish() }).nullish(),
  prompt_cache_key: z.string().nullish(),
  prompt_cache_options: nullableObject,
  prompt_cache_retention: z.string().nullish(),
  reasoning: nullableObject,
  safety_identifier: z.string().nullish(),
  service_tier: z.string().nullish().meta({ description: 'Accepted, but not sent to the model server.' }),
  store: z.literal(false, { error: noState }).nullish(),
  stream: streamFlag.nullish(),
  stream_options: nullableObject,
  temperature: temperature.nullish(),
  text: nullableObject,
  tool_choice: z.union([z.string(), object], { error: 'expected a string or an object' }).nullish(),
  tools: listOf(z.looseObject({ type: z.string() })).nullish(),
  top_logprobs: z.int().min(0).max(20).nullish(),
  top_p: topP.nullish(),
  truncation: z.string().nullish(),
  user: z.string().nullish(),
});

export type ResponseRequest = z.infer<typeof responseRequestSchema>;

/** Estimates the tokens of the prompt of a request, valid or not. `text` is the request as JSON. */
export function estimateInput(request: object, text: string): number {
  return estimateWithMedia(request, { text, fields: ['input'], readMedia }) + tokensOfMessages(request, 'input');
}

const encryptedTypes = new Set<unknown>(['reasoning', 'compaction', 'compaction_summary', 'encrypted_content']);

const readMedia: ReadMedia = (part) => {
  const { type, result } = part;
  if (encryptedTypes.has(type)) return withoutOpaque(part, 'encrypted_content');
  if (type !== 'image_generation_call') return readOpenAiMedia(part);
  return isBase64(result) ? { tokens: tokensByTiles(result), emptied: { ...part, result: '' } } : undefined;
};

type PromptFields = Partial<Record<'instructions' | 'input' | 'tools' | 'text', unknown>>;

/** The texts of a payload, for the tokenizer, and the tokens of its media. */
export function inputPrompt(payload: PromptFields): Prompt {
  const { instructions, input, tools } = payload;
  const media: MediaSum = { tokens: (Array.isArray(input) ? input.length : 1) * tokensPerMessage, texts: [] };
  const shown = withoutMedia(input, readMedia, media);
  const texts = textsIn([instructions, shown], textFields);
  const others = [...toolTexts(tools), ...fieldTexts(payload, ['text'])];
  return { texts: [...texts, ...others, ...media.texts], tokens: media.tokens };
}

/** A text as input is a message of the user. */
export function responseParts({ tools, instructions, input }: PromptFields): PromptParts {
  const items = typeof input === 'string' ? [{ role: 'user', content: input }] : input;
  const { leading, others } = withLeading(items);
  return { head: [tools, instructions, ...leading], messages: others };
}

const textFields = new Set(['content', 'text', 'arguments', 'input', 'output', 'summary', 'refusal']);
