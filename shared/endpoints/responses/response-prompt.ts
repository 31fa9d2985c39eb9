import type { Prompt } from '../definition/request-format.ts';
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
import { fieldTexts, textsIn, toolTexts } from '../tokens/texts-in.ts';

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

const textFields = new Set(['content', 'text', 'arguments', 'input', 'output', 'summary', 'refusal']);
