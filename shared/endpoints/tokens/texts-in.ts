import { isObject } from '../../is-object.ts';

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

/** Returns each of these fields of a request as JSON, if it is an object or a list: a template or a server may write it into the prompt. */
export function fieldTexts(request: object, fields: readonly string[]): string[] {
  const values = fields.map((name) => (request as Readonly<Record<string, unknown>>)[name]);
  return values.flatMap((value) => (typeof value === 'object' && value !== null ? [JSON.stringify(value)] : []));
}
