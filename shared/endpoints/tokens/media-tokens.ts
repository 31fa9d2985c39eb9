import { z } from 'zod';
import { isObject } from '../../is-object.ts';
import { estimateTokens } from './estimate-tokens.ts';

/** OpenAI's rule gives at most 85 + 8 × 170 for an image in high detail. */
export const tokensPerImage = 1_500;
/** Models encode up to 25 tokens per second of sound, and speech rarely has less than 2,500 bytes per second. */
export const audioBytesPerToken = 100;
/** A file may be compressed text. */
export const fileBytesPerToken = 2;

export const base64 = z.string().regex(/^[A-Za-z0-9+/_=-]+$/);
export const imageUrl = z.string().regex(/^data:image\/[^,]{1,200};base64,[A-Za-z0-9+/_=-]+$/);
export const dataUrl = z.string().regex(/^data:[^,]{1,200};base64,[A-Za-z0-9+/_=-]+$/);

/** Four characters of base64 are three bytes. */
export function tokensOfBase64(data: string, bytesPerToken: number): number {
  return Math.ceil((data.length * 3) / 4 / bytesPerToken);
}

/** Estimates the tokens of a request as JSON. Any part of it may get into the prompt, so all of it counts, including names of fields. */
export function estimateJson(json: string): number {
  return estimateTokens(withLineEnds(json));
}

/** Models get the line feed and not its escape, which would count double. `split` and `join` are much faster than `replaceAll`. */
function withLineEnds(json: string): string {
  return json.includes('\\n') ? json.split('\\n').join('\n') : json;
}

/** A part without its data, and the tokens of that data. */
export type EmptiedPart = { tokens: number; emptied: object };

/** Reads the media of one part; undefined if there is none. */
export type ReadMedia = (part: Readonly<Record<string, unknown>>) => EmptiedPart | undefined;

/** Tokens around each message in the prompt of a chat model, from OpenAI's guide to counting tokens. */
export const tokensPerMessage = 4;

type Prompted = { text: string; field: string; readMedia: ReadMedia };

/**
 * Estimates the tokens of a request, valid or not, whose prompt is a list of messages in one field. `text` is the request as JSON. Only the
 * data of media is not counted as text.
 */
export function estimateMessages(request: object, { text, field, readMedia }: Prompted): number {
  const { [field]: messages } = request as Readonly<Record<string, unknown>>;
  if (!Array.isArray(messages)) return estimateJson(text);
  const media = { tokens: 0 };
  const emptied = withoutMedia(messages, readMedia, media);
  const written = media.tokens === 0 ? text : JSON.stringify({ ...request, [field]: emptied });
  return estimateJson(written) + messages.length * tokensPerMessage + media.tokens;
}

/** Returns messages or parts with the media in them emptied, and adds the tokens of the media to `total`. */
export function withoutMedia(value: unknown, readMedia: ReadMedia, total: { tokens: number }): unknown {
  if (Array.isArray(value)) return value.map((item) => withoutMedia(item, readMedia, total));
  if (!isObject(value)) return value;
  const media = readMedia(value);
  total.tokens += media?.tokens ?? 0;
  if (media !== undefined) return media.emptied;
  // The output of a tool is a part that holds parts.
  const { content, output } = value;
  const held = { ...(Array.isArray(content) && { content }), ...(Array.isArray(output) && { output }) };
  const emptied = Object.entries(held).map(([name, parts]) => [name, withoutMedia(parts, readMedia, total)]);
  return emptied.length === 0 ? value : { ...value, ...Object.fromEntries(emptied) };
}
