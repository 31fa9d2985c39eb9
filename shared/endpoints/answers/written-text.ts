import { isObject, type Json } from '../../json/json-values.ts';

/**
 * Fields that the model has not written, or not a second time. `label`: it labels a part of an answer, or comes with its text. `opaque`: it
 * has no text, but an image, sound, a file, a signature, or what the provider has encrypted. `any`: text with some servers, and base64 or
 * an address with others.
 */
const kinds: ReadonlyMap<string, 'label' | 'opaque' | 'any'> = new Map([
  ...(['role', 'id', 'type', 'call_id', 'status', 'format', 'media_type', 'mime_type'] as const).map(labelOf),
  ...(['logprobs', 'annotations', 'citations', 'citation'] as const).map(labelOf),
  ...(['signature', 'thought_signature', 'encrypted_content', 'encrypted_index'] as const).map(opaqueOf),
  ...(['images', 'image', 'image_url', 'audio_url', 'video_url', 'b64_json', 'file_data'] as const).map(opaqueOf),
  ...(['data', 'result', 'url'] as const).map((name) => [name, 'any'] as const),
]);

function labelOf(name: string) {
  return [name, 'label'] as const;
}
function opaqueOf(name: string) {
  return [name, 'opaque'] as const;
}

/** Types of parts that the provider has encrypted. */
const encrypted = /encrypted|redacted/;
const noBase64 = /[^\w+/=-]/;
/** A shorter text in these fields counts. */
const base64CharactersMin = 64;
/** Some servers write generated images into the text. */
const dataUrls = /data:[\w.+-]+\/[\w.+-]+(?:;[\w.+=-]+){0,4};base64,[\w+/-]+={0,2}/g;
/** A shorter text is not searched for them. */
export const searchedCharactersMin = 1_024;

/** Fields with the arguments of a tool call. If they are not a text, they are any JSON, and all of it was written. */
const argumentFields = new Set(['input', 'arguments']);

const depthMax = 8;

/**
 * What the model wrote in a message or a part of one: every text in it, as content, reasoning or a tool call. What is no text has no part
 * in it (contract.md#ms11-reported-usage).
 */
export function writtenText(value: unknown, depth = 0): string {
  if (typeof value === 'string') return withoutDataUrls(value);
  if (typeof value !== 'object' || value === null || depth > depthMax || isEncrypted(value)) return '';
  const fields: Readonly<Record<string, unknown>> = { ...value };
  let text = '';
  for (const name in fields) {
    const field = fields[name];
    if (isWritten(name, field)) text += writtenArguments(name, field) ?? writtenText(field, depth + 1);
  }
  return text;
}

/** Whether the model may have written a field with this name and value. */
function isWritten(name: string, value: unknown): boolean {
  const kind = kinds.get(name);
  if (kind === undefined) return true;
  return kind === 'any' && !(typeof value === 'string' && isOpaque(value));
}

function isOpaque(text: string): boolean {
  return text.startsWith('data:') || (text.length >= base64CharactersMin && !noBase64.test(text));
}

function isEncrypted(part: { type?: unknown }): boolean {
  return typeof part.type === 'string' && encrypted.test(part.type);
}

/** Whether a message or a part of one has any content: a text, or what is no text. */
export function hasContent(value: unknown, depth = 0): boolean {
  if (typeof value === 'string') return value !== '';
  if (typeof value !== 'object' || value === null || depth > depthMax) return false;
  return Object.entries(value).some(([name, field]) => kinds.get(name) !== 'label' && hasContent(field, depth + 1));
}

/** The arguments of a tool call as JSON; undefined if the field has none, or has them as a text. */
function writtenArguments(name: string, value: unknown): string | undefined {
  if (!argumentFields.has(name) || !(isObject(value) || Array.isArray(value))) return undefined;
  // A call begins without any.
  return Object.keys(value).length === 0 ? '' : JSON.stringify(value);
}

function withoutDataUrls(text: string): string {
  if (text.length < searchedCharactersMin || !text.includes(';base64,')) return text;
  return text.replace(dataUrls, '');
}

const thoughts = /^(?:reasoning|thinking)/;

/** The length to which texts are cut so that all of them have `total`. */
export function longestWithin(lengths: readonly number[], total: number): number {
  let left = total;
  let texts = lengths.length;
  for (const length of lengths.toSorted((one, other) => one - other)) {
    if (length * texts >= left) return left / texts;
    left -= length;
    texts--;
  }
  return Number.POSITIVE_INFINITY;
}

type Budget = { left: number };

/** Cuts the texts in these fields to what is left of the budget in characters: reasoning first, then the others in their order. */
export function cutFields(fields: Json, budget: Budget): Record<string, unknown> {
  const names = Object.keys(fields).sort((one, other) => Number(thoughts.test(other)) - Number(thoughts.test(one)));
  const cut = new Map(names.map((name) => [name, cutField(name, fields[name], budget)]));
  // They repeat the text, token by token.
  if (budget.left <= 0 && Array.isArray(fields.logprobs)) cut.set('logprobs', []);
  return Object.fromEntries(Object.keys(fields).map((name) => [name, cut.get(name)]));
}

function cutField(name: string, value: unknown, budget: Budget): unknown {
  if (name === 'name' || !isWritten(name, value)) return value;
  const written = writtenArguments(name, value);
  if (written === undefined) return cutValue(value, budget);
  // A part of them would be other arguments.
  const isWithin = written.length <= budget.left;
  budget.left = isWithin ? budget.left - written.length : 0;
  return isWithin ? value : {};
}

function cutValue(value: unknown, budget: Budget): unknown {
  if (typeof value === 'string') {
    const kept = value.slice(0, budget.left);
    budget.left -= kept.length;
    // Drops half a surrogate pair.
    return kept.length < value.length ? kept.replace(/[\ud800-\udbff]$/, '') : kept;
  }
  if (Array.isArray(value)) return value.flatMap((item) => (budget.left > 0 ? [cutValue(item, budget)] : []));
  return isObject(value) && !isEncrypted(value) ? cutFields(value, budget) : value;
}

/** Cuts lists with an item for each token to this share. */
export function cutLists(fields: Json, share: number): Json {
  const cut = (value: unknown) => (Array.isArray(value) ? value.slice(0, Math.floor(value.length * share)) : value);
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, cut(value)]));
}
