import { z } from 'zod';
import { isObject } from '../is-object.ts';
import { estimateTokens } from './estimate-tokens.ts';

type Chat = { readonly messages: readonly unknown[] };

/**
 * Estimates the number of tokens in the prompt of a chat request. `text` is the request as JSON. Any part of it may get into the prompt
 * (tools, schemas, unknown fields), so all of it is counted, including field names. Only base64 data in a part of a message is not counted
 * as text: an image counts 1,500 tokens, sound one token per 100 bytes, and a file one token per 2 bytes.
 */
export function estimatePrompt(chat: Chat, text: string): number {
  const { tokens, messages } = takeMediaOut(chat.messages);
  const written = tokens === 0 ? text : JSON.stringify({ ...chat, messages });
  return estimateTokens(withLineEnds(written)) + chat.messages.length * tokensPerMessage + tokens;
}

/** Models get the line feed and not its escape, which would count double. `split` and `join` are much faster than `replaceAll`. */
function withLineEnds(json: string): string {
  return json.includes('\\n') ? json.split('\\n').join('\n') : json;
}

/** Tokens around each message in the prompt of a chat model, from OpenAI's guide to counting tokens. */
export const tokensPerMessage = 4;
/** OpenAI's rule gives at most 85 + 8 × 170 for an image in high detail. */
const tokensPerImage = 1_500;
/** Models encode up to 25 tokens per second of sound, and speech rarely has less than 2,500 bytes per second. */
const audioBytesPerToken = 100;
/** A file may be compressed text. */
const fileBytesPerToken = 2;

/** Returns the messages with their media emptied, and the tokens of the media. */
function takeMediaOut(messages: readonly unknown[]): { tokens: number; messages: unknown[] } {
  let tokens = 0;
  const emptied = messages.map((message) => {
    if (!isObject(message) || !Array.isArray(message.content)) return message;
    const content = message.content.map((part: unknown) => {
      const media = parseMedia(part);
      tokens += media?.tokens ?? 0;
      return media?.emptied ?? part;
    });
    return { ...message, content };
  });
  return { tokens, messages: emptied };
}

/** Parses a part only if its type is a media type, because a body can have a hundred thousand parts. */
function parseMedia(part: unknown): { tokens: number; emptied: object } | undefined {
  return isObject(part) && mediaTypes.has(part.type) ? mediaPart.safeParse(part).data : undefined;
}

const mediaTypes = new Set<unknown>(['image_url', 'input_audio', 'file']);
const base64 = z.string().regex(/^[A-Za-z0-9+/_=-]+$/);
const imageUrl = z.string().regex(/^data:image\/[^,]{1,200};base64,[A-Za-z0-9+/_=-]+$/);
const dataUrl = z.string().regex(/^data:[^,]{1,200};base64,[A-Za-z0-9+/_=-]+$/);

/** An image at an address that the backend fetches also counts as an image, and its address counts as text. */
const imagePart = z
  .looseObject({ type: z.literal('image_url'), image_url: z.looseObject({ url: z.string() }) })
  .transform(({ image_url: image, ...part }) => {
    const isData = imageUrl.safeParse(image.url).success;
    return { tokens: tokensPerImage, emptied: { ...part, image_url: { ...image, url: isData ? '' : image.url } } };
  });

const audioPart = z
  .looseObject({ type: z.literal('input_audio'), input_audio: z.looseObject({ data: base64 }) })
  .transform(({ input_audio: audio, ...part }) => {
    return {
      tokens: tokensOf(audio.data, audioBytesPerToken),
      emptied: { ...part, input_audio: { ...audio, data: '' } },
    };
  });

const filePart = z
  .looseObject({ type: z.literal('file'), file: z.looseObject({ file_data: z.union([base64, dataUrl]) }) })
  .transform(({ file, ...part }) => {
    return {
      tokens: tokensOf(file.file_data, fileBytesPerToken),
      emptied: { ...part, file: { ...file, file_data: '' } },
    };
  });

const mediaPart = z.discriminatedUnion('type', [imagePart, audioPart, filePart]);

/** Four characters of base64 are three bytes. */
function tokensOf(data: string, bytesPerToken: number): number {
  return Math.ceil((data.length * 3) / 4 / bytesPerToken);
}
