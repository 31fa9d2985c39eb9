import { isObject } from '../../../shared/json/json-values.ts';

/** The type of a value in words: `string`, `array of integers or null`. */
export function typeText(schema: Schema, schemas: Schemas): string {
  const { choices, nullable } = choicesOf(schema, schemas);
  const names = [...new Set(choices.flatMap((choice) => namesOf(choice, schemas))), ...(nullable ? ['null'] : [])];
  return names.join(' or ') || 'any';
}

function namesOf({ schema }: Choice, schemas: Schemas): string[] {
  const types = typesOf(schema);
  if (types.length === 0) return 'const' in schema || 'enum' in schema ? ['string'] : ['any'];
  return types.map((type) => {
    if (type === 'array') return `array of ${plural(typeText(schemaAt(schema, 'items') ?? {}, schemas))}`;
    const values = schemaAt(schema, 'additionalProperties');
    if (type === 'object' && values !== undefined) return `object of ${plural(typeText(values, schemas))}`;
    return textAt(schema, 'format') === 'binary' ? 'file' : type;
  });
}

function plural(types: string): string {
  return types
    .split(' or ')
    .map((name) =>
      /^(any|null|arrays? |objects? of )/.test(name) ? name.replace(/^(array|object) /, '$1s ') : `${name}s`,
    )
    .join(' or ');
}

/** The values that a schema allows within its type, each as a short text in Markdown. */
export function boundsTexts(schema: Schema, schemas: Schemas): string[] {
  const { choices, defaultValue } = choicesOf(schema, schemas);
  const bounds = choices.flatMap(({ schema: one }) => boundsOf(one, schemas));
  return [...new Set(bounds), ...(defaultValue === undefined ? [] : [`Default: \`${JSON.stringify(defaultValue)}\`.`])];
}

function boundsOf(schema: Schema, schemas: Schemas): string[] {
  const { enum: values } = schema;
  const pattern = textAt(schema, 'pattern');
  const items = schemaAt(schema, 'items');
  const format = textAt(schema, 'format');
  return [
    ...('const' in schema ? [`Always \`${JSON.stringify(schema.const)}\`.`] : []),
    ...(Array.isArray(values) ? [`One of ${values.map((value) => `\`${value}\``).join(', ')}.`] : []),
    ...rangeText(schema, ['minLength', 'maxLength'], 'characters'),
    ...rangeText(schema, ['minItems', 'maxItems'], 'items'),
    ...numberText(schema),
    ...(format === undefined || format === 'binary' ? [] : [`Format: \`${format}\`.`]),
    ...(pattern === undefined ? [] : [`Pattern: \`${pattern}\`.`]),
    ...(items === undefined ? [] : boundsTexts(items, schemas).map((text) => `Each: ${lowerFirst(text)}`)),
  ];
}

function rangeText(schema: Schema, [low, high]: readonly [string, string], unit: string): string[] {
  const [least, most] = [numberAt(schema, low), numberAt(schema, high)];
  if (least !== undefined && most !== undefined) return [`${count(least)} to ${count(most)} ${unit}.`];
  if (most !== undefined) return [`At most ${count(most)} ${unit}.`];
  return least === undefined ? [] : [`At least ${count(least)} ${least === 1 ? unit.replace(/s$/, '') : unit}.`];
}

function numberText(schema: Schema): string[] {
  const above = numberAt(schema, 'exclusiveMinimum');
  const isWhole = typesOf(schema).includes('integer');
  const least = above !== undefined && isWhole ? above + 1 : numberAt(schema, 'minimum');
  const most = numberAt(schema, 'maximum');
  if (least !== undefined && most !== undefined) return [`${count(least)} to ${count(most)}.`];
  if (least !== undefined) return [`At least ${count(least)}.`];
  if (above !== undefined) return [`More than ${count(above)}.`];
  return most === undefined ? [] : [`At most ${count(most)}.`];
}

function count(value: number): string {
  return value.toLocaleString('en');
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

/** Schemas by the name that others refer to them with. */
export type Schemas = Readonly<Record<string, Schema>>;

/** What a value may be: one of these schemas without further choices, or null. `name` is that of a schema of the document. */
type Choices = { choices: Choice[]; nullable: boolean; description: string; defaultValue: unknown };
type Choice = { schema: Schema; name?: string };

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
function typesOf({ type }: Schema): string[] {
  return [type].flat().filter((name): name is string => typeof name === 'string' && name !== 'null');
}

function allowsNull({ type }: Schema): boolean {
  return [type].flat().includes('null');
}

/** A number, text or other value that a keyword has, if it has one. */
function numberAt(schema: Schema, keyword: string): number | undefined {
  const found = schema[keyword];
  return typeof found === 'number' ? found : undefined;
}

function textAt(schema: Schema, keyword: string): string | undefined {
  const found = schema[keyword];
  return typeof found === 'string' ? found : undefined;
}

/** How a reference to a schema of the document begins. */
export const schemaPrefix = '#/components/schemas/';

/** The name of the schema that this one refers to. */
export function schemaName({ $ref }: Schema): string | undefined {
  return typeof $ref === 'string' && $ref.startsWith(schemaPrefix) ? $ref.slice(schemaPrefix.length) : undefined;
}
