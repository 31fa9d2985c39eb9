import { z } from 'zod';
import { validationError } from '../../errors.ts';
import { isObject } from '../../json/json-values.ts';
import type { Prompt, PromptParts, ReadHeader } from '../definition/endpoint.ts';
import { checkItems, listOf, streamFlag } from '../fields/common-fields.ts';
import { refusedByDefault } from '../fields/refused-fields.ts';
import { tokensByPixels, tokensPerImage } from '../tokens/image-tokens.ts';
import {
  type EmptiedPart,
  estimateWithMedia,
  isBase64,
  type MediaSum,
  type Part,
  type ReadMedia,
  readAll,
  readEach,
  sizeOfFile,
  tokensOfMessages,
  withoutMedia,
  withoutOpaque,
} from '../tokens/media-tokens.ts';
import { fieldTexts, textsIn, toolTexts } from '../tokens/prompt-texts.ts';

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

/** Betas that only change the prompt, the answer's format or how tokens are counted. Source: Anthropic's SDK, and what its agents send. */
const passed = new Set([
  ...['claude-code-20250219', 'fine-grained-tool-streaming-2025-05-14', 'effort-2025-11-24'],
  ...['computer-use-2024-10-22', 'computer-use-2025-01-24', 'computer-use-2025-11-24', 'inline-tools-2026-09-15'],
  ...['output-128k-2025-02-19', 'output-300k-2026-03-24', 'context-1m-2025-08-07', 'context-management-2025-06-27'],
  ...['dev-full-thinking-2025-05-14', 'interleaved-thinking-2025-05-14', 'thinking-token-count-2026-05-13'],
  ...['thinking-display-updates-2026-08-18', 'thinking-binding-controls-2026-08-01', 'task-budgets-2026-03-13'],
  ...['model-context-window-exceeded-2025-08-26', 'compact-2026-01-12', 'compact-2026-09-04'],
  ...['mid-conversation-tool-changes-2026-07-01', 'mid-conversation-output-config-2026-07-01'],
  ...['mid-conversation-system-clear-at-2026-08-21', 'structured-outputs-2025-11-13', 'pdfs-2024-09-25'],
  ...['prompt-caching-2024-07-31', 'extended-cache-ttl-2025-04-11', 'cache-diagnosis-2026-04-07'],
  ...['token-counting-2024-11-01', 'token-efficient-tools-2025-02-19', 'redact-thinking-2026-02-12'],
  ...['mid-conversation-system-2026-04-07', 'per-turn-control-2026-07-01', 'prompt-caching-scope-2026-01-05'],
  ...['advanced-tool-use-2025-11-20', 'structured-outputs-2025-12-15'],
]);

/**
 * Betas that spend the operator's money or reach beyond the model, by the beginning of their names, which end with a date. Without them a
 * request would mean something else than its client wants. Betas of tools and fields that are refused themselves are only removed: agents
 * send such names with every request.
 */
const refused: Readonly<Record<string, string>> = {
  'fast-mode': 'a faster mode has a higher price',
  'mcp-client': 'the provider calls servers that the request names',
  'mcp-tunnels': "the provider calls servers in the operator's network",
  'files-api': "the request names files of the operator's account",
  skills: "code runs in a container of the operator's account, which is billed",
};

/**
 * Reads the header `anthropic-beta`: names that are not known do not reach the backend, because they may mean anything. Fails with
 * `VALIDATION_ERROR` for those that are refused. `isListed` says what the operator allows, by
 * names such as `anthropic-beta.fast-mode-2026-02-01`.
 */
export const readBetas: ReadHeader = (sent, isListed) => {
  const names = [...new Set(sent.split(',').map((name) => name.trim()))].filter((name) => name !== '');
  const isAllowed = (name: string) => isListed(`anthropic-beta.${name}`);
  const wrong = names.find((name) => reasonAgainst(name) !== undefined && !isAllowed(name));
  if (wrong !== undefined) {
    const hint = `the operator can allow it: "anthropic-beta.${wrong}" in extra_fields of the model`;
    const message = `${wrong} is not accepted: ${reasonAgainst(wrong)} (${hint})`;
    throw validationError([{ path: 'anthropic-beta', message, refused: 'anthropic-beta' }]);
  }
  const kept = names.filter((name) => passed.has(name) || isAllowed(name));
  const dropped = names.filter((name) => !kept.includes(name)).map((name) => `anthropic-beta.${name}`);
  return { kept: kept.join(', '), dropped };
};

function reasonAgainst(name: string): string | undefined {
  const stem = name.replace(/-\d{4}-?\d{2}-?\d{2}$/, '');
  return Object.hasOwn(refused, stem) ? refused[stem] : undefined;
}

const fields = ['messages', 'system'];

/** Estimates the tokens of the prompt of a request, valid or not. `text` is the request as JSON. */
export function estimateMessagePrompt(request: object, text: string): number {
  return estimateWithMedia(request, { text, fields, readMedia }) + tokensOfMessages(request, 'messages');
}

const readMedia: ReadMedia = (part) => {
  switch (part.type) {
    case 'image':
      return (
        readSource(part, (data) => ({ tokens: tokensByPixels(data) })) ?? { tokens: tokensPerImage, emptied: part }
      );
    case 'document':
      return readSource(part, sizeOfFile);
    case 'text':
      return readEach(part, 'citations', (citation) => withoutOpaque(citation, 'encrypted_index'));
    case 'thinking':
      return withoutOpaque(part, 'signature');
    case 'compaction':
      return readAll(part, [withoutEncrypted, (rest) => withoutOpaque(rest, 'signature')]);
    case 'web_search_result':
      return withoutEncrypted(part);
    case 'redacted_thinking':
      return withoutOpaque(part, 'data');
    default:
      return undefined;
  }
};

const withoutEncrypted: ReadMedia = (part) => withoutOpaque(part, 'encrypted_content');

type SizeOf = (data: string) => Omit<EmptiedPart, 'emptied'>;

function readSource(part: Part, sizeOf: SizeOf): EmptiedPart | undefined {
  const { source } = part;
  if (!isObject(source) || source.type !== 'base64' || !isBase64(source.data)) return undefined;
  return { ...sizeOf(source.data), emptied: { ...part, source: { ...source, data: '' } } };
}

/** With the schema of the output. */
const otherFields = ['output_config', 'output_format'] as const;

type PromptFields = Partial<Record<'system' | 'messages' | 'tools' | (typeof otherFields)[number], unknown>>;

/** The texts of a payload, for the tokenizer, and the tokens of its media. */
export function messagesPrompt(payload: PromptFields): Prompt {
  const { system, messages, tools } = payload;
  const media: MediaSum = { tokens: tokensOfMessages({ messages }, 'messages'), texts: [] };
  const shown = withoutMedia([system, messages], (part) => readDocument(part) ?? readMedia(part), media);
  const others = [...toolTexts(tools), ...fieldTexts(payload, otherFields)];
  return { texts: [...textsIn(shown, textFields), ...others, ...media.texts], tokens: media.tokens };
}

export function messageParts({ tools, system, messages }: PromptFields): PromptParts {
  return { head: [tools, system], messages: Array.isArray(messages) ? messages : [] };
}

const textFields = new Set(['content', 'text', 'input', 'thinking', 'title', 'context']);

/** A document of text, as parts that have its text where a message has it. */
const readDocument: ReadMedia = ({ type, source, title, context }) => {
  if (type !== 'document' || !isObject(source)) return undefined;
  const { type: kind, data, content } = source;
  if (kind === 'text') return { tokens: 0, emptied: { title, context, text: data } };
  return kind === 'content' ? { tokens: 0, emptied: { title, context, content } } : undefined;
};
