import { codeBlock, escapeHtml, variantBlocks } from '../code-block.ts';
import type { Prose } from '../render-markdown.ts';
import { schemaName, schemasAt } from './describe-schema.ts';
import { writeCurl, writeNode, writePython } from './example-programs.ts';
import { printJson } from './print-value.ts';
import { type Media, type OpenApiDocument, type Operation, type Parameter, refusalsOf } from './read-document.ts';
import { fieldList, folded, renderFields } from './render-fields.ts';
import { type ExampleParts, requestExample } from './request-example.ts';

export type OperationContext = {
  document: OpenApiDocument;
  prose: Prose;
  examples: ExampleParts;
  /** The address of the page about errors. */
  errorsHref: string;
};

/** An operation with its id on the page: what it takes and answers, and beside it examples of both. */
export function renderOperation(operation: Operation, id: string, context: OperationContext): string {
  const { summary, method, path } = operation;
  const about = [
    `<p class="route">${methodMark(method)} <code>${escapeHtml(path)}</code></p>`,
    context.prose.blocks(operation.description),
    credentials(operation, context),
    parameters(operation, context),
    ...Object.values(operation.requestBody?.content ?? {}).map((media) => body(media, context)),
    answer(operation, context),
    refusals(operation, context.errorsHref),
  ];
  const anchor = escapeHtml(id);
  return `<section class="operation" aria-labelledby="${anchor}">
<h2 id="${anchor}"><a href="#${anchor}">${escapeHtml(summary)}</a></h2>
<div class="sides"><div class="about">${about.filter(Boolean).join('\n')}</div>
<div class="examples">${requestBlocks(operation, context)}${answerBlocks(operation)}</div></div>
</section>
`;
}

export function methodMark(method: string): string {
  return `<span class="method ${method.toLowerCase()}">${method}</span>`;
}

/** What all operations have in common is described on the first page. */
export const everywhere = ['x-client-request-id', 'x-request-id'];

function credentials({ security }: Operation, { document, prose }: OperationContext): string {
  if (security.length === 0) return '<p class="credential">Needs no credential.</p>';
  const ways = security.flatMap((way) =>
    Object.entries(way).map(([name, scopes]) => {
      const scope = scopes.length > 0 ? ` With the scope \`${scopes.join(' ')}\`.` : '';
      return `${document.components.securitySchemes[name]?.description ?? name}${scope}`;
    }),
  );
  return `<p class="credential">${prose.line(ways.join(' Or: '))}</p>`;
}

/** Headers are folded, because most requests need none of them. */
const places: readonly { place: string; title: string; isFolded?: true }[] = [
  { place: 'path', title: 'Path' },
  { place: 'query', title: 'Query' },
  { place: 'header', title: 'Headers of the request', isFolded: true },
];

function parameters({ parameters: all }: Operation, { prose, document }: OperationContext): string {
  const shown = all.filter(({ name }) => !everywhere.includes(name));
  const lists = places.map(({ place, title, isFolded }) => {
    const fields = shown.filter((parameter) => parameter.in === place).map(toField);
    if (fields.length === 0) return '';
    const list = fieldList(fields, { prose, schemas: document.components.schemas });
    return isFolded ? folded(title, list) : `<h3>${title}</h3>${list}`;
  });
  return lists.join('');
}

function toField({ name, required, description, schema }: Parameter) {
  return { name, required, schema, ...(description !== '' && { description }) };
}

function body({ schema }: Media, context: OperationContext): string {
  return `<h3>Body${nameMark(schema)}</h3>${fieldsOrNone(schema, context)}`;
}

function nameMark(schema: Media['schema']): string {
  const name = schemaName(schema);
  return name === undefined ? '' : ` <code class="schema">${escapeHtml(name)}</code>`;
}

function fieldsOrNone(schema: Media['schema'], { prose, document }: OperationContext): string {
  return renderFields(schema, { prose, schemas: document.components.schemas });
}

function answer({ responses }: Operation, context: OperationContext): string {
  const { prose } = context;
  const parts = Object.entries(responses)
    .filter(([status]) => /^[23]/.test(status))
    .map(([status, { description, content, headers }], index) => {
      const media = index === 0 ? Object.entries(content) : []; // a redirect has the same body
      const shown = media.map(([type, one]) => answerMedia(type, one, context)).join('');
      return `<p><span class="status">${status}</span> ${prose.line(description)}</p>${shown}${
        index === 0 ? answerHeaders(headers, context) : ''
      }`;
    });
  return `<h3>Answer</h3>${parts.join('')}`;
}

function answerMedia(type: string, media: Media, context: OperationContext): string {
  const { prose } = context;
  const events = schemasAt(media['x-event-schema'], 'anyOf');
  if (events.length > 0) {
    const lists = events.map(
      (event) =>
        `<details class="inner"><summary>Event${nameMark(event)}</summary>${fieldsOrNone(event, context)}</details>`,
    );
    return `<p><code>${type}</code>: ${prose.line(String(media.schema.description ?? ''))}</p>${lists.join('')}`;
  }
  const fields = fieldsOrNone(media.schema, context);
  if (fields === '') return `<p><code>${type}</code></p>`;
  return folded(`Fields of the answer${nameMark(media.schema)}`, fields);
}

function answerHeaders(all: Readonly<Record<string, { description: string }>>, { prose }: OperationContext): string {
  const shown = Object.entries(all).filter(([name]) => !everywhere.includes(name));
  if (shown.length === 0) return '';
  const items = shown.map(([name, { description }]) => `<li><code>${name}</code>: ${prose.line(description)}</li>`);
  return folded('Headers of the answer', `<ul>${items.join('')}</ul>`);
}

function refusals(operation: Operation, errorsHref: string): string {
  const link = (name: string) => `<a href="${escapeHtml(`${errorsHref}#${name}`)}"><code>${name}</code></a>`;
  const rows = refusalsOf(operation).map(({ status, codes, limits }) => {
    const types = limits.length === 0 ? '' : `: ${limits.map(link).join(', ')}`;
    return `<li><span class="status">${status}</span> <span>${codes.map(link).join(', ')}${types}</span></li>`;
  });
  return rows.length === 0 ? '' : `<h3>Errors</h3><ul class="refusals">${rows.join('')}</ul>`;
}

function requestBlocks(operation: Operation, { examples }: OperationContext): string {
  const { summary } = operation;
  const example = requestExample(operation, examples);
  const block = (code: string, language: string, name: string) => ({
    name,
    html: codeBlock({ code, language, name: `${name}: ${summary}` }),
  });
  return variantBlocks([
    block(writeCurl(example), 'sh', 'curl'),
    block(writeNode(example), 'ts', 'Node'),
    block(writePython(example), 'python', 'Python'),
  ]);
}

const languages: Readonly<Record<string, string>> = { 'application/json': 'json', 'text/event-stream': 'text' };

function answerBlocks({ summary, responses }: Operation): string {
  const [first] = Object.values(responses);
  const blocks = Object.entries(first?.content ?? {}).flatMap(([type, { example }]) => {
    if (example === undefined) return [];
    const code = typeof example === 'string' ? example.trimEnd() : printJson(example);
    const name = `Answer, ${type}: ${summary}`;
    const html = codeBlock({ code, language: languages[type] ?? '', name });
    return `<p class="example-name">Answer <code>${escapeHtml(type)}</code></p>${html}`;
  });
  return blocks.join('');
}
