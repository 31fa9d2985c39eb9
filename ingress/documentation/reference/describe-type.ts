import { type Choice, choicesOf, type Schemas } from './document/schema-choices.ts';
import { numberAt, type Schema, schemaAt, textAt, typesOf } from './document/schema-parts.ts';

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
