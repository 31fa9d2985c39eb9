import { z } from 'zod';
import { isObject } from '../is-object.ts';
import { estimateTokens } from './estimate-tokens.ts';

type Chat = { readonly messages: readonly unknown[] };

/**
 * About how many tokens a chat request's prompt has. `text` is the request as JSON. Whatever is in it may get into the prompt
 * (tools, schemas, fields that we do not know), so all of it is counted, field names included. Only data in base64 that is
 * a part of a message is not counted as the text it is written in: an image is 1,500 tokens, sound one for each 100 bytes, a
 * file one for each 2.
 */
export function estimatePrompt(chat: Chat, text: string): number {
  const { tokens, messages } = takeMediaOut(chat.messages);
  const written = tokens === 0 ? text : JSON.stringify({ ...chat, messages });
  return estimateTokens(withLineEnds(written)) + chat.messages.length * tokensPerMessage + tokens;
}

/** A model is given the end of a line and not its escape, which would count double. Far faster so than by `replaceAll`. */
function withLineEnds(json: string): string {
  return json.includes('\\n') ? json.split('\\n').join('\n') : json;
}

/** What stands around each message in the prompt of a chat model; as OpenAI's guide to counting tokens gives it. */
const tokensPerMessage = 4;
/** The most that OpenAI's rule makes of an image in high detail is 85 + 8 × 170. */
const tokensPerImage = 1_500;
/** Models hear up to 25 tokens a second, and speech is hardly ever sent in less than 2,500 bytes a second. */
const audioBytesPerToken = 100;
/** A file may be text, and compressed. */
const fileBytesPerToken = 2;

/** The messages with their media left empty, and the tokens of those. */
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

/** Only where its type says so is a part given to a schema, for a body can have a hundred thousand of them. */
function parseMedia(part: unknown): { tokens: number; emptied: object } | undefined {
  return isObject(part) && mediaTypes.has(part.type) ? mediaPart.safeParse(part).data : undefined;
}

const mediaTypes = new Set<unknown>(['image_url', 'input_audio', 'file']);
const base64 = z.string().regex(/^[A-Za-z0-9+/_=-]+$/);
const imageUrl = z.string().regex(/^data:image\/[^,]{1,200};base64,[A-Za-z0-9+/_=-]+$/);
const dataUrl = z.string().regex(/^data:[^,]{1,200};base64,[A-Za-z0-9+/_=-]+$/);

/** An image at an address that the backend fetches counts as one, too, and its address is text like any other. */
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
