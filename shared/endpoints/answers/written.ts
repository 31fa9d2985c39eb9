import { isObject } from '../../is-object.ts';

/** Fields that label a part of an answer, or come with its text. The model has not written them, or not a second time. */
export const notWritten: ReadonlySet<string> = new Set([
  ...['role', 'id', 'type', 'call_id', 'status', 'signature', 'encrypted_content'],
  ...['logprobs', 'annotations', 'citations', 'citation'],
]);

/** Fields with the arguments of a tool call. If they are not a text, they are any JSON, and all of it was written. */
const argumentFields = new Set(['input', 'arguments']);

const depthMax = 8;

/** What the model wrote in a message or a part of one: every text in it, as content, reasoning or a tool call. */
export function writtenText(value: unknown, depth = 0): string {
  if (typeof value === 'string') return value;
  if (typeof value !== 'object' || value === null || depth > depthMax) return '';
  const fields: Readonly<Record<string, unknown>> = { ...value };
  let text = '';
  for (const name in fields) {
    if (!notWritten.has(name)) text += writtenArguments(name, fields[name]) ?? writtenText(fields[name], depth + 1);
  }
  return text;
}

/** The arguments of a tool call as JSON; undefined if the field has none, or has them as a text. */
export function writtenArguments(name: string, value: unknown): string | undefined {
  if (!argumentFields.has(name) || !(isObject(value) || Array.isArray(value))) return undefined;
  // A call begins without any.
  return Object.keys(value).length === 0 ? '' : JSON.stringify(value);
}
