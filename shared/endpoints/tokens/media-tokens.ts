import { isUtf8 } from 'node:buffer';
import { isObject } from '../../json/json-values.ts';
import { estimateTokens } from './estimate-tokens.ts';
import { tokensByTiles, tokensPerImage } from './image-tokens.ts';

/** Models encode up to 25 tokens per second of sound, and speech rarely has less than 2,500 bytes per second. */
const audioBytesPerToken = 100;
/** A PDF can be compressed text or pictures of pages, so this is wrong in both directions (contract.md#ho9-estimates). */
const fileBytesPerToken = 64;
/** Signatures and encrypted reasoning: a model gets the reasoning, or nothing of it. */
const opaqueBytesPerToken = 32;

/** Estimates the tokens of a request as JSON. Any part of it may get into the prompt, so all of it counts, including names of fields. */
function estimateJson(json: string): number {
  return estimateTokens(json, withLineEnds);
}

/** Models get the line feed and not its escape, which would count double. `split` and `join` are much faster than `replaceAll`. */
function withLineEnds(json: string): string {
  return json.includes('\\n') ? json.split('\\n').join('\n') : json;
}

export type Part = Readonly<Record<string, unknown>>;

/** Media: the tokens of its data, or the text of a file, which gets into the prompt as it is. */
type Size = { tokens: number; text?: string };

/** A part without its data. */
export type EmptiedPart = Size & { emptied: Part };

/** All media of a prompt. */
export type MediaSum = { tokens: number; texts: string[] };

/** Reads the media and the opaque strings of one message or part; undefined if there are none. */
export type ReadMedia = (part: Part) => EmptiedPart | undefined;

/** Tokens around each message in the prompt of a chat model, from OpenAI's guide to counting tokens. */
export const tokensPerMessage = 4;

type MediaPrompt = { text: string; fields: readonly string[]; readMedia: ReadMedia };

/**
 * Estimates the tokens of a request, valid or not, with messages or parts in these fields. `text` is the request as JSON. Only the data of
 * media and opaque strings are not counted as text.
 */
export function estimateWithMedia(request: object, { text, fields, readMedia }: MediaPrompt): number {
  const media: MediaSum = { tokens: 0, texts: [] };
  const emptied = fields.map((field) => [field, withoutMedia(fieldOf(request, field), readMedia, media)]);
  const isUnchanged = media.tokens === 0 && media.texts.length === 0;
  const written = isUnchanged ? text : JSON.stringify({ ...request, ...Object.fromEntries(emptied) });
  const ofFiles = media.texts.reduce((sum, file) => sum + estimateTokens(file), 0);
  return estimateJson(written) + media.tokens + ofFiles;
}

/** The tokens around the messages in a field. */
export function tokensOfMessages(request: object, field: string): number {
  const messages = fieldOf(request, field);
  return Array.isArray(messages) ? messages.length * tokensPerMessage : 0;
}

function fieldOf(request: object, field: string): unknown {
  return (request as Part)[field];
}

/** Fields of a message or a part that hold parts: the output of a tool, and the source of a document. */
const holders = ['content', 'output', 'source'] as const;

/** Returns messages or parts with the media in them emptied, and adds the media to `total`. */
export function withoutMedia(value: unknown, readMedia: ReadMedia, total: MediaSum): unknown {
  if (Array.isArray(value)) return value.map((item) => withoutMedia(item, readMedia, total));
  if (!isObject(value)) return value;
  const media = readMedia(value);
  total.tokens += media?.tokens ?? 0;
  if (media?.text !== undefined) total.texts.push(media.text);
  const part = media?.emptied ?? value;
  const held = holders.filter((name) => typeof part[name] === 'object' && part[name] !== null);
  if (held.length === 0) return part;
  return { ...part, ...Object.fromEntries(held.map((name) => [name, withoutMedia(part[name], readMedia, total)])) };
}

/**
 * By the type of a part, in OpenAI's notations and those of model servers: of chat completions, of responses, and in the output of a tool.
 */
const readers: ReadonlyMap<unknown, ReadMedia> = new Map<unknown, ReadMedia>([
  ...['image_url', 'input_image', 'computer_screenshot'].map((type) => [type, readImage('image_url')] as const),
  ['image', (part) => (part.image == null ? undefined : readImage('image')(part))],
  ['input_audio', readAudio],
  ['audio_url', readAt('audio_url', audioBytesPerToken)],
  ['video_url', readAt('video_url', fileBytesPerToken)],
  ['file', (part) => readField(part, 'file', readFile)],
  ['input_file', readFile],
]);

/** Fields in which model servers find the media of a part without a type. */
const untyped = ['image_url', 'image', 'input_audio', 'audio_url', 'video_url', 'file'];

export const readOpenAiMedia: ReadMedia = (part) => {
  // A message has a role and no type.
  const type = part.type ?? (part.role === undefined ? untyped.find((field) => part[field] != null) : undefined);
  return readers.get(type)?.(part);
};

/** The address is a text, or in an object with `detail`. An image that the backend fetches is also one, and its address counts as text. */
function readImage(field: string): (part: Part) => EmptiedPart {
  return (part) => {
    const { [field]: address } = part;
    if (!isObject(address)) {
      const { tokens, emptied } = imageAt(address, part.detail);
      return { tokens, emptied: { ...part, [field]: emptied } };
    }
    const { tokens, emptied } = imageAt(address.url, address.detail);
    return { tokens, emptied: { ...part, [field]: { ...address, url: emptied } } };
  };
}

function imageAt(address: unknown, detail: unknown): { tokens: number; emptied: unknown } {
  const data = typeof address === 'string' ? dataIn(address, /^data:image\/[^,]{1,200};base64,/) : undefined;
  if (data !== undefined) return { tokens: tokensByTiles(data, detail), emptied: '' };
  return { tokens: detail === 'low' ? tokensByTiles('', detail) : tokensPerImage, emptied: address };
}

/** Reads the data in a `data:` address, which is a text, or in an object. */
function readAt(field: string, bytesPerToken: number): ReadMedia {
  return (part) => {
    const { [field]: address } = part;
    const data = anyDataIn(isObject(address) ? address.url : address);
    if (data === undefined) return undefined;
    const emptied = isObject(address) ? { ...address, url: '' } : '';
    return { tokens: Math.ceil(bytesOf(data) / bytesPerToken), emptied: { ...part, [field]: emptied } };
  };
}

function readAudio(part: Part): EmptiedPart | undefined {
  const { input_audio: audio } = part;
  const data = isObject(audio) ? base64In(audio.data) : undefined;
  if (!isObject(audio) || data === undefined) return undefined;
  const tokens = Math.ceil(bytesOf(data) / audioBytesPerToken);
  return { tokens, emptied: { ...part, input_audio: { ...audio, data: '' } } };
}

function readFile(part: Part): EmptiedPart | undefined {
  const data = base64In(part.file_data);
  return data === undefined ? undefined : { ...sizeOfFile(data), emptied: { ...part, file_data: '' } };
}

/** Base64, also as a `data:` address. */
function base64In(text: unknown): string | undefined {
  return anyDataIn(text) ?? (isBase64(text) ? text : undefined);
}

function anyDataIn(text: unknown): string | undefined {
  return typeof text === 'string' ? dataIn(text, /^data:[^,]{1,200};base64,/) : undefined;
}

export function sizeOfFile(data: string): Size {
  const bytes = Buffer.from(data, 'base64');
  if (isUtf8(bytes) && !bytes.includes(0)) return { tokens: 0, text: bytes.toString() };
  return { tokens: Math.ceil(bytes.length / fileBytesPerToken) };
}

/** Empties the opaque string in one field of a part. Anything else than base64 is text. */
export function withoutOpaque(part: Part, field: string): EmptiedPart | undefined {
  const data = part[field];
  if (!isBase64(data)) return undefined;
  return { tokens: Math.ceil(bytesOf(data) / opaqueBytesPerToken), emptied: { ...part, [field]: '' } };
}

/** Reads an object in a field of a part. */
export function readField(part: Part, field: string, read: ReadMedia): EmptiedPart | undefined {
  const member = part[field];
  const found = isObject(member) ? read(member) : undefined;
  return found === undefined ? undefined : { ...found, emptied: { ...part, [field]: found.emptied } };
}

/** Reads each object of a list in a field of a part. */
export function readEach(part: Part, field: string, read: ReadMedia): EmptiedPart | undefined {
  const items: unknown = part[field];
  if (!Array.isArray(items)) return undefined;
  const found = items.map((item: unknown) => (isObject(item) ? read(item) : undefined));
  const tokens = found.reduce((sum, each) => sum + (each?.tokens ?? 0), 0);
  if (tokens === 0) return undefined;
  return { tokens, emptied: { ...part, [field]: items.map((item, index) => found[index]?.emptied ?? item) } };
}

/** Reads one part in several ways. */
export function readAll(part: Part, ways: readonly ReadMedia[]): EmptiedPart | undefined {
  const read = { tokens: 0, emptied: part };
  for (const way of ways) {
    const found = way(read.emptied);
    read.tokens += found?.tokens ?? 0;
    read.emptied = found?.emptied ?? read.emptied;
  }
  return read.tokens === 0 ? undefined : read;
}

/** The base64 of a `data:` address that begins so. */
function dataIn(address: string, beginning: RegExp): string | undefined {
  const data = address.slice(beginning.exec(address)?.[0].length ?? address.length);
  return isBase64(data) ? data : undefined;
}

const base64 = /^[A-Za-z0-9+/_=-]+$/;
const lineCharactersMin = 40;

/** Base64 in one line, or in long lines (RFC 2045): words are shorter, so no text is taken for base64. */
export function isBase64(data: unknown): data is string {
  if (typeof data !== 'string') return false;
  if (!data.includes('\n')) return base64.test(data);
  const lines = data.trimEnd().split(/\r?\n/);
  return lines.every(
    (line, index) => base64.test(line) && (index === lines.length - 1 || line.length >= lineCharactersMin),
  );
}

/** Four characters of base64 are three bytes. */
function bytesOf(data: string): number {
  return (data.length * 3) / 4;
}
