import { isObject } from '../../../../shared/json/json-values.ts';

/** JSON Schema 2020-12. */
export type Schema = Readonly<Record<string, unknown>>;

/** The schemas within a schema, read as the types that JSON Schema gives them; other values are left out. */
export function schemasAt(schema: Schema, keyword: 'anyOf' | 'oneOf' | 'allOf'): Schema[] {
  const found = schema[keyword];
  return Array.isArray(found) ? found.filter(isObject) : [];
}

export function schemaAt(schema: Schema, keyword: 'items' | 'additionalProperties'): Schema | undefined {
  const found = schema[keyword];
  return isObject(found) ? found : undefined;
}

/** The fields of an object, by name. */
export function fieldsOf({ properties }: Schema): [string, Schema][] {
  if (!isObject(properties)) return [];
  return Object.entries(properties).filter((entry): entry is [string, Schema] => isObject(entry[1]));
}

export function isRequired({ required }: Schema, name: string): boolean {
  return Array.isArray(required) && required.includes(name);
}

/** The types that a schema names, without `null`. */
export function typesOf({ type }: Schema): string[] {
  return [type].flat().filter((name): name is string => typeof name === 'string' && name !== 'null');
}

export function allowsNull({ type }: Schema): boolean {
  return [type].flat().includes('null');
}

/** A number, text or other value that a keyword has, if it has one. */
export function numberAt(schema: Schema, keyword: string): number | undefined {
  const found = schema[keyword];
  return typeof found === 'number' ? found : undefined;
}

export function textAt(schema: Schema, keyword: string): string | undefined {
  const found = schema[keyword];
  return typeof found === 'string' ? found : undefined;
}
