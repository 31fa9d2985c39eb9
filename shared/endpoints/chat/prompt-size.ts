import { z } from 'zod';
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
} from '../tokens/media-tokens.ts';

/**
 * Estimates the number of tokens in the prompt of a chat request, valid or not. `text` is the request as JSON. Only base64 data in a part
 * of a message is not counted as text: an image counts 1,500 tokens, sound one token per 100 bytes, and a file one token per 2 bytes.
 */
export function estimateChatPrompt(request: object, text: string): number {
  return estimateMessages(request, { text, field: 'messages', readMedia });
}

/** Parses a part only if its type is a media type, because a body can have a hundred thousand parts. */
const readMedia: ReadMedia = (part) => (mediaTypes.has(part.type) ? mediaPart.safeParse(part).data : undefined);

const mediaTypes = new Set<unknown>(['image_url', 'input_audio', 'file']);

/** An image at an address that the backend fetches also counts as an image, and its address counts as text. */
const imagePart = z
  .looseObject({ type: z.literal('image_url'), image_url: z.looseObject({ url: z.string() }) })
  .transform(({ image_url: image, ...part }) => {
    const isData = imageUrl.safeParse(image.url).success;
    return { tokens: tokensPerImage, emptied: { ...part, image_url: { ...image, url: isData ? '' : image.url } } };
  });

const audioPart = z
  .looseObject({ type: z.literal('input_audio'), input_audio: z.looseObject({ data: base64 }) })
  .transform(({ input_audio: audio, ...part }) => ({
    tokens: tokensOfBase64(audio.data, audioBytesPerToken),
    emptied: { ...part, input_audio: { ...audio, data: '' } },
  }));

const filePart = z
  .looseObject({ type: z.literal('file'), file: z.looseObject({ file_data: z.union([base64, dataUrl]) }) })
  .transform(({ file, ...part }) => ({
    tokens: tokensOfBase64(file.file_data, fileBytesPerToken),
    emptied: { ...part, file: { ...file, file_data: '' } },
  }));

const mediaPart = z.discriminatedUnion('type', [imagePart, audioPart, filePart]);
