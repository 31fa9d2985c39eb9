import { z } from 'zod';
import { isObject } from '../../is-object.ts';
import type { Prompt } from '../definition/request-format.ts';
import {
  base64,
  estimateMessages,
  fileBytesPerToken,
  type ReadMedia,
  tokensOfBase64,
  tokensPerImage,
  tokensPerMessage,
  withoutMedia,
} from '../tokens/media-tokens.ts';
import { textsIn, toolTexts } from '../tokens/texts-in.ts';

/**
 * Estimates the tokens of the prompt of a request, valid or not. `text` is the request as JSON. Only base64 data is not counted as text: an
 * image counts 1,500 tokens, and a document one token per 2 bytes.
 */
export function estimateMessagePrompt(request: object, text: string): number {
  return estimateMessages(request, { text, field: 'messages', readMedia });
}

const mediaTypes = new Set<unknown>(['image', 'document']);
const readMedia: ReadMedia = (part) => (mediaTypes.has(part.type) ? mediaPart.safeParse(part).data : undefined);

const imagePart = z
  .looseObject({ type: z.literal('image'), source: z.looseObject({ type: z.string(), data: base64.optional() }) })
  .transform(({ source, ...part }) => {
    const emptied = source.data === undefined ? source : { ...source, data: '' };
    return { tokens: tokensPerImage, emptied: { ...part, source: emptied } };
  });

const documentPart = z
  .looseObject({ type: z.literal('document'), source: z.looseObject({ type: z.literal('base64'), data: base64 }) })
  .transform(({ source, ...part }) => ({
    tokens: tokensOfBase64(source.data, fileBytesPerToken),
    emptied: { ...part, source: { ...source, data: '' } },
  }));

const mediaPart = z.discriminatedUnion('type', [imagePart, documentPart]);

/** The texts of a queued body, for the tokenizer. */
export function messagesPrompt({
  system,
  messages,
  tools,
}: {
  system?: unknown;
  messages?: unknown;
  tools?: unknown;
}): Prompt {
  const count = Array.isArray(messages) ? messages.length : 0;
  const shown = withoutMedia(messages, readDocument, { tokens: 0 });
  const texts = [...textsIn([system, shown], textFields), ...toolTexts(tools)];
  return { texts, tokens: count * tokensPerMessage };
}

const textFields = new Set(['content', 'text', 'input', 'thinking']);

/** A document of text, as parts that have its text where a message has it. */
const readDocument: ReadMedia = ({ type, source }) => {
  if (type !== 'document' || !isObject(source)) return undefined;
  const { type: kind, data, content } = source;
  if (kind === 'text') return { tokens: 0, emptied: { text: data } };
  return kind === 'content' ? { tokens: 0, emptied: { content } } : undefined;
};
