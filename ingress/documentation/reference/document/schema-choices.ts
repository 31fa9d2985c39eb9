import { schemaName } from './openapi-document.ts';
import { allowsNull, type Schema, schemasAt, textAt } from './schema-parts.ts';

/** Schemas by the name that others refer to them with. */
export type Schemas = Readonly<Record<string, Schema>>;

/** What a value may be: one of these schemas without further choices, or null. `name` is that of a schema of the document. */
export type Choices = { choices: Choice[]; nullable: boolean; description: string; defaultValue: unknown };
export type Choice = { schema: Schema; name?: string };

/** Resolves references, and flattens choices within choices, so that `null` is no choice. */
export function choicesOf(schema: Schema, schemas: Schemas): Choices {
  const { flat, nullable } = flatten(schema, schemas);
  const described = [schema, ...flat.map((choice) => choice.schema)].map((one) => textAt(one, 'description'));
  const choices = flat.filter(({ schema: { type } }) => type !== 'null');
  const defaultValue = schema.default ?? choices[0]?.schema.default;
  return { choices, nullable, description: described.find(Boolean) ?? '', defaultValue };
}

function flatten(schema: Schema, schemas: Schemas, known?: string): { flat: Choice[]; nullable: boolean } {
  const name = schemaName(schema);
  const target = name === undefined ? undefined : schemas[name];
  if (target !== undefined) return flatten(target, schemas, name);
  const within = [...schemasAt(schema, 'anyOf'), ...schemasAt(schema, 'oneOf')];
  if (within.length === 0) {
    const choice = { schema: merged(schema, schemas), ...(known !== undefined && { name: known }) };
    return { flat: [choice], nullable: allowsNull(schema) };
  }
  const found = within.map((one) => flatten(one, schemas));
  return { flat: found.flatMap(({ flat }) => flat), nullable: found.some(({ nullable }) => nullable) };
}

/** One schema with the fields of all the schemas that it combines. */
function merged(schema: Schema, schemas: Schemas): Schema {
  const parts = schemasAt(schema, 'allOf').flatMap((part) =>
    flatten(part, schemas).flat.map((choice) => choice.schema),
  );
  if (parts.length === 0) return schema;
  const { allOf: _, ...own } = schema;
  const all = [...parts, own];
  return { ...Object.assign({}, ...all), properties: Object.assign({}, ...all.map(({ properties }) => properties)) };
}
