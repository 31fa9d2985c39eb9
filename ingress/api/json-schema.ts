import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';

/** JSON Schema 2020-12, as used by OpenAPI 3.1. */
export type JsonSchema = Record<string, unknown>;

/** Schema of a request (`input`) or of a response (`output`). */
type Direction = 'input' | 'output';

type SchemaPair = { zodSchema: z.core.$ZodTypes; jsonSchema: JsonSchema };

export function refTo(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}

/** Each schema as a component of the document under its name; schemas within other schemas become references. */
export function toComponents(schemas: Readonly<Record<string, z.ZodType>>, io: Direction): Record<string, JsonSchema> {
  const names = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(schemas)) names.add(schema, { id });
  const { schemas: converted } = z.toJSONSchema(names, { ...optionsFor(io), uri: (id) => refTo(id).$ref as string }); // the form that `refTo` writes
  return Object.fromEntries(Object.entries(converted).map(([name, schema]) => [name, withoutHead(schema)]));
}

export function toJsonSchema(schema: z.core.$ZodType, io: Direction): JsonSchema {
  return withoutHead(z.toJSONSchema(schema, optionsFor(io)));
}

function optionsFor(io: Direction) {
  return { io, unrepresentable: 'any', override: (shown: SchemaPair) => simplify(shown, io) } as const;
}

function withoutHead(schema: JsonSchema): JsonSchema {
  const { $schema, $id, ...rest } = schema;
  return rest;
}

/** A schema with custom checks names another schema that describes it. */
function simplify({ zodSchema, jsonSchema }: SchemaPair, io: Direction): void {
  const { documentedAs, ...meta } = z.globalRegistry.get(zodSchema) ?? {};
  if (documentedAs instanceof z.ZodType) {
    for (const name of Object.keys(jsonSchema)) delete jsonSchema[name];
    Object.assign(jsonSchema, toJsonSchema(documentedAs, io), meta);
  }
  dropNoise(jsonSchema);
}

/** Removes constraints that hold for all JSON or repeat `format`, and keywords without meaning for clients. */
function dropNoise(schema: JsonSchema): void {
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum;
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum;
  if (schema.format === 'date' || schema.format === 'date-time') delete schema.pattern;
  if (schema.format === 'binary') delete schema.contentEncoding;
  if (isDeepStrictEqual(schema.propertyNames, { type: 'string' })) delete schema.propertyNames;
  if (isDeepStrictEqual(schema.additionalProperties, {})) delete schema.additionalProperties;
  // A field that must not be present is omitted if unknown fields are not allowed anyway.
  const properties = propertiesOf(schema);
  for (const [name, property] of Object.entries(properties)) if ('not' in property) delete properties[name];
}

/** The schemas of the fields of an object, by name. */
export function propertiesOf({ properties = {} }: JsonSchema): Record<string, JsonSchema> {
  return properties as Record<string, JsonSchema>; // written by the same conversion
}
