import { isObject } from '../../json/json-values.ts';
import { promptsIn } from '../fields/common-fields.ts';
import { estimateWithMedia, type MediaSum, readOpenAiMedia, withoutMedia } from './media-tokens.ts';

const depthMax = 16;

/** Returns every text in these fields of a value, at any depth. A list is searched, and so is a text itself. */
export function textsIn(value: unknown, fields: ReadonlySet<string>, depth = 0): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null || depth > depthMax) return [];
  if (Array.isArray(value)) return value.flatMap((item) => textsIn(item, fields, depth + 1));
  return Object.entries(value).flatMap(([name, member]) => {
    if (!fields.has(name)) return [];
    // Below a field with text, an object is data, such as the arguments of a tool: all of it counts.
    return isObject(member) ? [JSON.stringify(member)] : textsIn(member, fields, depth + 1);
  });
}

/** Returns each tool of a request as JSON. Tools are a part of the prompt that can be longer than all messages. */
export function toolTexts(tools: unknown): string[] {
  return Array.isArray(tools) ? tools.map((tool) => JSON.stringify(tool)) : [];
}

/** Divides messages or items into the instructions that come first, and the others. */
export function withLeading(messages: unknown): { leading: readonly unknown[]; others: readonly unknown[] } {
  if (!Array.isArray(messages)) return { leading: [], others: [] };
  const isInstruction = (each: unknown) => isObject(each) && (each.role === 'system' || each.role === 'developer');
  const first = messages.findIndex((each) => !isInstruction(each));
  const count = first < 0 ? messages.length : first;
  return { leading: messages.slice(0, count), others: messages.slice(count) };
}

/** Returns each of these fields of a request as JSON, if it is an object or a list: a template or a server may write it into the prompt. */
export function fieldTexts(request: object, fields: readonly string[]): string[] {
  const values = fields.map((name) => (request as Readonly<Record<string, unknown>>)[name]);
  return values.flatMap((value) => (typeof value === 'object' && value !== null ? [JSON.stringify(value)] : []));
}

/**
 * Estimates the tokens of a request whose prompt is in one field, in any of OpenAI's forms. Token ids count one each. All other fields
 * count as text, because any of them may get into the prompt. `text` is the request as JSON.
 */
export function estimatePrompts(request: object, field: string, text: string): number {
  const { [field]: input, ...others } = { ...request } as Readonly<Record<string, unknown>>;
  const { tokens } = promptsIn(input);
  const prompted = { fields: [field, 'messages'], readMedia: readOpenAiMedia };
  if (tokens === 0) return estimateWithMedia(request, { ...prompted, text });
  return tokens + estimateWithMedia(others, { ...prompted, text: JSON.stringify(others) });
}

const textFields = new Set(['content', 'text']);

/** The prompts in one field of a payload. Some model servers take messages in place of them. */
export function promptsOf(
  payload: Readonly<Record<string, unknown>>,
  field: string,
): { texts: string[]; tokens: number } {
  const { texts, tokens } = promptsIn(payload[field]);
  const media: MediaSum = { tokens, texts: [] };
  const shown = withoutMedia(payload.messages, readOpenAiMedia, media);
  return { texts: [...texts, ...textsIn(shown ?? [], textFields), ...media.texts], tokens: media.tokens };
}
