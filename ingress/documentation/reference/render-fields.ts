import { escapeHtml } from '../code-block.ts';
import type { Prose } from '../render-markdown.ts';
import {
  boundsTexts,
  choicesOf,
  fieldsOf,
  isRequired,
  type Schema,
  type Schemas,
  schemaAt,
  typeText,
} from './describe-schema.ts';

type Context = { prose: Prose; schemas: Schemas };

/** A value with a name: a field of a body, or a parameter. */
type Field = { name: string; schema: Schema; required: boolean; description?: string };

const depthMax = 8;

/** The fields of all objects that this schema allows, as a list. Fields of fields can be unfolded. Empty if there are none. */
export function renderFields(schema: Schema, context: Context, depth = 0): string {
  const objects = depth > depthMax ? [] : objectsIn(schema, context.schemas);
  const lists = objects.map((object) => fieldList(toFields(object.schema), context, depth));
  if (objects.length < 2) return lists.join('');
  return objects.map(({ name }, index) => folded(escapeHtml(name ?? `Form ${index + 1}`), lists[index] ?? '')).join('');
}

/** The list of these fields. Optional ones without a description are folded if there are many. */
export function fieldList(fields: readonly Field[], context: Context, depth = 0): string {
  const isPlain = (field: Field) => !field.required && describe(field, context) === '';
  const plain = fields.filter(isPlain);
  const isFolded = plain.length > plainMax;
  const shown = isFolded ? fields.filter((field) => !isPlain(field)) : fields;
  const list = (of: readonly Field[]) =>
    `<dl class="fields">${of.map((field) => renderField(field, context, depth)).join('')}</dl>`;
  return list(shown) + (isFolded ? folded(`${plain.length} more fields`, list(plain)) : '');
}

const plainMax = 5;

function describe({ schema, description }: Field, { schemas }: Context): string {
  return description ?? choicesOf(schema, schemas).description;
}

export function toFields(schema: Schema): Field[] {
  return fieldsOf(schema).map(([name, field]) => ({ name, schema: field, required: isRequired(schema, name) }));
}

function renderField(field: Field, context: Context, depth: number): string {
  const { name, schema, required } = field;
  const { prose, schemas } = context;
  const text = describe(field, context);
  const bounds = boundsTexts(schema, schemas).join(' ');
  const inner = renderFields(schema, context, depth + 1);
  const head = [
    `<code>${escapeHtml(name)}</code>`,
    `<span class="type">${escapeHtml(typeText(schema, schemas))}</span>`,
    required && '<span class="required">required</span>',
    bounds && `<span class="bounds">${prose.line(bounds)}</span>`,
  ];
  const about = [text && prose.line(text), inner && folded(`Fields of <code>${escapeHtml(name)}</code>`, inner)].filter(
    Boolean,
  );
  const term = `<dt>${head.filter(Boolean).join(' ')}</dt>`;
  return `<div class="field">${term}${about.length === 0 ? '' : `<dd>${about.join('')}</dd>`}</div>`;
}

/** What a reader unfolds; both are HTML. */
export function folded(summary: string, content: string): string {
  return `<details class="inner"><summary>${summary}</summary>${content}</details>`;
}

/** The objects with fields among the choices of a schema, and of the items of its arrays. */
export function objectsIn(schema: Schema, schemas: Schemas): { schema: Schema; name?: string }[] {
  return choicesOf(schema, schemas).choices.flatMap((choice) => {
    const items = schemaAt(choice.schema, 'items') ?? schemaAt(choice.schema, 'additionalProperties');
    const own = fieldsOf(choice.schema).length > 0 ? [choice] : [];
    return items === undefined ? own : [...own, ...objectsIn(items, schemas)];
  });
}

/** The names and descriptions of all fields, for the search. */
export function fieldWords(schema: Schema, { prose, schemas }: Context, depth = 0): string {
  if (depth > depthMax) return '';
  const objects = objectsIn(schema, schemas);
  return objects
    .flatMap((object) => toFields(object.schema))
    .map(({ name, schema: field }) =>
      [name, prose.text(choicesOf(field, schemas).description), fieldWords(field, { prose, schemas }, depth + 1)].join(
        ' ',
      ),
    )
    .join(' ');
}
