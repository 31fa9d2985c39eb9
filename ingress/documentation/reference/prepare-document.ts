import { isObject } from '../../../shared/is-object.ts';
import { isRefusal } from './openapi-document.ts';

/** What all operations have in common is described once, at the top of the page. */
const everywhere = ['x-client-request-id', 'x-request-id', '#/components/parameters/clientRequestId'];

type Fields = Record<string, unknown>;

/**
 * Prepares the document for the renderer. Leaves out what it would repeat under each operation: servers, credentials, errors, and what all
 * operations have in common. Shortens schemas where possible: nullable types, and objects without other properties.
 */
export function prepareDocument(document: object): Fields {
  const { servers: _servers, security: _security, ...rest } = document as Fields; // an object has fields
  return shorten(rest) as Fields; // an object stays one
}

function shorten(value: unknown): unknown {
  if (Array.isArray(value)) return value.filter((item) => !isEverywhere(item)).map(shorten);
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value as Fields).flatMap(([name, field]) => shortenField(name, field)); // an object has fields
  return foldNull(Object.fromEntries(fields));
}

function shortenField(name: string, field: unknown): [string, unknown][] {
  // An example is not a schema, even if it looks like one.
  if (name === 'example' || name === 'examples' || name === 'default') return [[name, field]];
  if (name === 'additionalProperties' && field === false) return [];
  if (name === 'security' && Array.isArray(field)) return [];
  if (name === 'responses' && isObject(field)) return [[name, shorten(without(field, isRefusal))]];
  if (name === 'headers' && isObject(field)) return [[name, shorten(without(field, isEverywhere))]];
  return [[name, shorten(field)]];
}

function isEverywhere(item: unknown): boolean {
  return everywhere.includes(String(isObject(item) ? (item.$ref ?? item.name) : item));
}

function without(fields: Fields, leaveOut: (name: string) => boolean): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !leaveOut(name)));
}

/** A union of unions becomes one union. */
function choicesOf(schema: unknown): unknown[] {
  return isObject(schema) && Array.isArray(schema.anyOf) && Object.keys(schema).length === 1 ? schema.anyOf : [schema];
}

/** `{anyOf: [{type: 'integer', …}, {type: 'null'}]}` as `{type: ['integer', 'null'], …}`, which allows the same. */
function foldNull(fields: Fields): Fields {
  if (!Array.isArray(fields.anyOf)) return fields;
  const { anyOf: _, ...rest } = fields;
  const choices = fields.anyOf.flatMap(choicesOf);
  const [schema, nothing, another] = choices;
  const kept = { ...rest, anyOf: choices };
  if (another !== undefined || !isObject(schema) || !isObject(nothing) || nothing.type !== 'null') return kept;
  if (typeof schema.type !== 'string' || 'const' in schema || 'enum' in schema) return kept;
  return { ...schema, ...rest, type: [schema.type, 'null'] };
}
