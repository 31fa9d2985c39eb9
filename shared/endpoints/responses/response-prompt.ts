import { z } from 'zod';
import type { Prompt } from '../definition/request-format.ts';
import {
  audioBytesPerToken,
  base64,
  dataUrl,
  estimateMessages,
  fileBytesPerToken,
  imageUrl,
  type ReadMedia,
  tokensOfBase64,
  tokensPerImage,
  tokensPerMessage,
} from '../tokens/media-tokens.ts';
import { textsIn, toolTexts } from '../tokens/texts-in.ts';

/**
 * Estimates the tokens of the prompt of a request, valid or not. `text` is the request as JSON. Only base64 data is not counted as text: an
 * image counts 1,500 tokens, sound one token per 100 bytes, and a file one token per 2 bytes.
 */
export function estimateInput(request: object, text: string): number {
  return estimateMessages(request, { text, field: 'input', readMedia });
}

const mediaTypes = new Set<unknown>(['input_image', 'input_audio', 'input_file']);
const readMedia: ReadMedia = (part) => (mediaTypes.has(part.type) ? mediaPart.safeParse(part).data : undefined);

const imagePart = z
  .looseObject({ type: z.literal('input_image'), image_url: z.string().nullish() })
  .transform(({ image_url: url, ...part }) => {
    const isData = imageUrl.safeParse(url).success;
    return { tokens: tokensPerImage, emptied: { ...part, image_url: isData ? '' : url } };
  });

const audioPart = z
  .looseObject({ type: z.literal('input_audio'), input_audio: z.looseObject({ data: base64 }) })
  .transform(({ input_audio: audio, ...part }) => ({
    tokens: tokensOfBase64(audio.data, audioBytesPerToken),
    emptied: { ...part, input_audio: { ...audio, data: '' } },
  }));

const filePart = z
  .looseObject({ type: z.literal('input_file'), file_data: z.union([base64, dataUrl]) })
  .transform(({ file_data: data, ...part }) => ({
    tokens: tokensOfBase64(data, fileBytesPerToken),
    emptied: { ...part, file_data: '' },
  }));

const mediaPart = z.discriminatedUnion('type', [imagePart, audioPart, filePart]);

type Queued = { instructions?: unknown; input?: unknown; tools?: unknown };

/** The texts of a queued body, for the tokenizer. */
export function inputPrompt({ instructions, input, tools }: Queued): Prompt {
  const items = Array.isArray(input) ? input.length : 1;
  const texts = [...textsIn([instructions, input], textFields), ...toolTexts(tools)];
  return { texts, tokens: items * tokensPerMessage };
}

const textFields = new Set(['content', 'text', 'arguments', 'input', 'output', 'summary', 'refusal']);
