import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';

/** JSON Schema 2020-12, as OpenAPI 3.1 takes it. */
export type JsonSchema = Record<string, unknown>;

/** What a client may send (`input`), or what it is answered (`output`). */
type Direction = 'input' | 'output';

type Shown = { zodSchema: z.core.$ZodTypes; jsonSchema: JsonSchema };

export function refTo(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}

/** Each schema under its name, as a component of the document; where one is part of another it is referred to. */
export function toComponents(schemas: Readonly<Record<string, z.ZodType>>, io: Direction): Record<string, JsonSchema> {
  const names = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(schemas)) names.add(schema, { id });
  const { schemas: converted } = z.toJSONSchema(names, { ...optionsFor(io), uri: (id) => refTo(id).$ref as string }); // as refTo has it
  return Object.fromEntries(Object.entries(converted).map(([name, schema]) => [name, withoutHead(schema)]));
}

export function toJsonSchema(schema: z.core.$ZodType, io: Direction): JsonSchema {
  return withoutHead(z.toJSONSchema(schema, optionsFor(io)));
}

function optionsFor(io: Direction) {
  return { io, unrepresentable: 'any', override: (shown: Shown) => simplify(shown, io) } as const;
}

function withoutHead(schema: JsonSchema): JsonSchema {
  const { $schema, $id, ...rest } = schema;
  return rest;
}

/** What a schema checks by hand is described by the one that it names for it. */
function simplify({ zodSchema, jsonSchema }: Shown, io: Direction): void {
  const { documentedAs, ...meta } = z.globalRegistry.get(zodSchema) ?? {};
  if (documentedAs instanceof z.ZodType) {
    for (const name of Object.keys(jsonSchema)) delete jsonSchema[name];
    Object.assign(jsonSchema, toJsonSchema(documentedAs, io), meta);
  }
  dropNoise(jsonSchema);
}

/** What is true of any JSON, or said by `format` already, and what says nothing to a client. */
function dropNoise(schema: JsonSchema): void {
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum;
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum;
  if (schema.format === 'date' || schema.format === 'date-time') delete schema.pattern;
  if (schema.format === 'binary') delete schema.contentEncoding;
  if (isDeepStrictEqual(schema.propertyNames, { type: 'string' })) delete schema.propertyNames;
  if (isDeepStrictEqual(schema.additionalProperties, {})) delete schema.additionalProperties;
  // A field that may never be there goes without saying, where no unknown one may.
  const properties = propertiesOf(schema);
  for (const [name, property] of Object.entries(properties)) if ('not' in property) delete properties[name];
}

/** The schemas of an object's fields by their names. */
export function propertiesOf({ properties = {} }: JsonSchema): Record<string, JsonSchema> {
  return properties as Record<string, JsonSchema>; // what stands there is made by the same conversion
}
