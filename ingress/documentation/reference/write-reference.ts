import { boundsTexts, choicesOf, type Schema, type Schemas, typeText } from './describe-schema.ts';
import { writeCurl } from './example-programs.ts';
import { printJson } from './print-value.ts';
import {
  type Group,
  type Media,
  type OpenApiDocument,
  type Operation,
  readDocument,
  refusalsOf,
} from './read-document.ts';
import { objectsIn, toFields } from './render-fields.ts';
import { everywhere } from './render-operation.ts';
import { type ExampleParts, requestExample } from './request-example.ts';

/** Deeper fields are in the OpenAPI document, which each page names. */
const depthMax = 2;

/** The pages of the reference as Markdown, by their names: the same operations as on the HTML pages, with an example in curl. */
export function writeReference({ document: written, examples }: { document: object; examples: ExampleParts }) {
  const document = readDocument(written);
  return new Map([
    ['reference', writeOverview(document)],
    ...document.groups.map((group) => [`reference/${group.slug}`, writeGroup(group, document, examples)] as const),
  ]);
}

function writeOverview({ info, servers, groups }: OpenApiDocument): string {
  const lists = groups.map(({ name, slug, description, operations }) =>
    paragraphs([
      `## [${name}](reference/${slug}.md)`,
      description,
      operations.map(({ method, path, summary }) => `- \`${method} ${path}\`: ${summary}`).join('\n'),
    ]),
  );
  const bases = servers.map(({ url, description }) => `- \`${url}\`${description && `: ${description}`}`).join('\n');
  return `${paragraphs(['# API reference', info.description, bases, ...lists])}\n`;
}

function writeGroup(
  { name, description, operations }: Group,
  document: OpenApiDocument,
  examples: ExampleParts,
): string {
  const parts = operations.map((operation) => writeOperation(operation, document, examples));
  return `${paragraphs([`# ${name}`, description, ...parts])}\n`;
}

function writeOperation(operation: Operation, { components }: OpenApiDocument, examples: ExampleParts): string {
  const { method, path, summary, description, parameters, requestBody, responses } = operation;
  const { schemas } = components;
  const named = parameters
    .filter(({ name }) => !everywhere.includes(name))
    .map((one) => fieldLine({ ...one, schemas, about: `in the ${one.in}` }));
  const bodies = Object.values(requestBody?.content ?? {}).map(({ schema }) => listFields(schema, schemas));
  const [status, answer] = Object.entries(responses).find(([one]) => one.startsWith('2')) ?? [];
  const refusals = refusalsOf(operation).map(
    (one) => `- ${one.status}: ${[...one.codes, ...one.limits].map((code) => `\`${code}\``).join(', ')}`,
  );
  return paragraphs([
    `## ${summary}`,
    `\`${method} ${path}\``,
    description,
    credential(operation, components.securitySchemes),
    titled('Parameters', named.join('\n')),
    titled('Body', bodies.filter(Boolean).join('\n')),
    fenced('sh', writeCurl(requestExample(operation, examples))),
    titled(`Answer: ${status ?? ''}`, answer?.description ?? ''),
    ...Object.entries(answer?.content ?? {}).map(([type, media]) => writeAnswer(type, media, schemas)),
    titled('[Errors](errors.md)', refusals.join('\n')),
  ]);
}

function credential({ security }: Operation, schemes: OpenApiDocument['components']['securitySchemes']): string {
  const ways = security.flatMap((way) =>
    Object.entries(way).map(([name, scopes]) => {
      const scope = scopes.length > 0 ? ` With the scope \`${scopes.join(' ')}\`.` : '';
      return `${schemes[name]?.description ?? name}${scope}`;
    }),
  );
  return ways.length === 0 ? 'Needs no credential.' : `Credential: ${ways.join(' Or: ')}`;
}

function writeAnswer(type: string, { schema, example }: Media, schemas: Schemas): string {
  const shown = typeof example === 'string' ? example.trimEnd() : example && printJson(example);
  const language = type === 'application/json' ? 'json' : 'text';
  return paragraphs([`\`${type}\``, listFields(schema, schemas), shown ? fenced(language, String(shown)) : '']);
}

/** The fields of all objects that this schema allows, as a list. Fields of fields are lists within it. */
function listFields(schema: Schema, schemas: Schemas, depth = 0): string {
  if (depth > depthMax) return '';
  const lines = objectsIn(schema, schemas).flatMap((object) =>
    toFields(object.schema).map((field) => {
      const inner = listFields(field.schema, schemas, depth + 1);
      const line = fieldLine({ ...field, schemas, about: '' });
      return inner === '' ? line : `${line}\n${inner}`;
    }),
  );
  const indented = lines.map((line) => line.replace(/^/gm, depth === 0 ? '' : '  '));
  return [...new Set(indented)].join('\n');
}

type FieldLine = {
  name: string;
  schema: Schema;
  required: boolean;
  description?: string;
  schemas: Schemas;
  about: string;
};

function fieldLine({ name, schema, required, description, schemas, about }: FieldLine): string {
  const kind = [typeText(schema, schemas), about, required && 'required'].filter(Boolean).join(', ');
  const text = [description || choicesOf(schema, schemas).description, ...boundsTexts(schema, schemas)];
  return `- \`${name}\` (${kind})${oneLine(text.filter(Boolean).join(' '))}`;
}

function oneLine(text: string): string {
  return text === '' ? '' : `: ${text.replace(/\s+/g, ' ')}`;
}

function titled(title: string, content: string): string {
  return content === '' ? '' : `**${title}**\n\n${content}`;
}

function fenced(language: string, code: string): string {
  return `\`\`\`${language}\n${code}\n\`\`\``;
}

function paragraphs(parts: readonly string[]): string {
  return parts.filter((part) => part !== '').join('\n\n');
}
