import { escapeHtml } from '../code-block.ts';
import { createHeadingIds, type Prose, type RenderedPage, type Section } from '../render-markdown.ts';
import { type Group, type OpenApiDocument, type Operation, readDocument, refusalsOf } from './read-document.ts';
import { fieldWords, folded, renderFields } from './render-fields.ts';
import { methodMark, type OperationContext, renderOperation } from './render-operation.ts';

/** A page of the reference. The name of the first is `reference`, the names of groups are below it. */
type ReferencePage = RenderedPage & { name: string };

type ReferenceParts = Omit<OperationContext, 'document'> & {
  document: object;
  /** The address of the first page. */
  href: string;
};

/** The pages of an OpenAPI document: an overview, and a page for each group of operations. Throws for a document that is not OpenAPI. */
export function renderReference({ document: written, href, ...parts }: ReferenceParts): ReferencePage[] {
  const document = readDocument(written);
  const context = { ...parts, document };
  const ids = operationIds(document);
  return [
    { name: 'reference', ...renderOverview({ document, ids, href, prose: parts.prose }) },
    ...document.groups.map((group) => renderGroup(group, ids, context)),
  ];
}

/** Unique among all operations, so that an id leads to the same operation on the overview. */
function operationIds({ groups }: OpenApiDocument): Map<Operation, string> {
  const headingId = createHeadingIds();
  return new Map(
    groups.flatMap(({ name, operations }) => {
      headingId({ text: name, depth: 2, code: false });
      return operations.map((operation) => {
        return [operation, headingId({ text: operation.summary, depth: 3, code: false })] as const;
      });
    }),
  );
}

function renderGroup(group: Group, ids: ReadonlyMap<Operation, string>, context: OperationContext): ReferencePage {
  const { name, slug, description, operations } = group;
  const idOf = (operation: Operation) => ids.get(operation) ?? '';
  const html = [
    `<h1>${escapeHtml(name)}</h1>`,
    context.prose.blocks(description),
    operationList(operations, (operation) => `#${idOf(operation)}`),
    ...operations.map((operation) => renderOperation(operation, idOf(operation), context)),
  ];
  return {
    name: `reference/${slug}`,
    title: name,
    html: html.join('\n'),
    sections: operations.map((operation) => sectionOf(operation, idOf(operation), context)),
    content: context.prose.text(description),
  };
}

/** What the search finds of an operation: its path, its description, its errors and all of its fields. */
function sectionOf(operation: Operation, id: string, { document, prose }: OperationContext): Section {
  const { method, path, summary, description, parameters, requestBody } = operation;
  const context = { prose, schemas: document.components.schemas };
  const bodies = [requestBody, operation.responses[200]].flatMap((one) => Object.values(one?.content ?? {}));
  const content = [
    ...[method, path, prose.text(description)],
    ...parameters.map((parameter) => `${parameter.name} ${prose.text(parameter.description)}`),
    ...bodies.map(({ schema }) => fieldWords(schema, context)),
    ...refusalsOf(operation).flatMap(({ codes }) => codes),
  ];
  return { id, text: summary, depth: 2, content: content.join(' ') };
}

type Overview = {
  document: OpenApiDocument;
  ids: ReadonlyMap<Operation, string>;
  /** The address of this page; those of groups are below it. */
  href: string;
  prose: Prose;
};

const title = 'API reference';
/** Only descriptions name it, because it depends on the base path. */
const nestedError = 'NestedError';

/** The first page: what all operations have in common, and a list of them. Their ids are those that they had when all were on one page. */
function renderOverview({ document, ids, href, prose }: Overview): RenderedPage {
  const { info, groups } = document;
  const common = [
    { id: 'addresses', text: 'Addresses and credentials', html: addresses(document, prose) },
    { id: 'schemas', text: 'Errors', html: errors(document, prose) },
  ];
  const idOf = (operation: Operation) => ids.get(operation) ?? '';
  const lists = groups.map((group) => ({
    id: group.slug,
    text: group.name,
    html: groupList(group, { href: `${href}/${group.slug}`, idOf, prose }),
  }));
  const parts = [...common, ...lists];
  const html = [
    `<h1>${title}</h1>`,
    prose.blocks(info.description),
    ...parts.map(({ id, text, html }) => `${heading(id, text)}\n${html}`),
  ].join('\n');
  const sections: Section[] = parts.map(({ id, text }) => ({ id, text, depth: 2, content: '' }));
  return { title, html, sections, content: prose.text(info.description) };
}

function heading(id: string, text: string): string {
  return `<h2 id="${id}"><a href="#${id}">${escapeHtml(text)}</a></h2>`;
}

function addresses({ info, servers, components }: OpenApiDocument, prose: Prose): string {
  const bases = servers.map(({ url, description }) => {
    const about = description === '' ? '' : `: ${prose.line(description)}`;
    return `<li><code>${escapeHtml(url)}</code>${about}</li>`;
  });
  const ways = Object.values(components.securitySchemes).map(
    ({ description }) => `<li>${prose.line(description)}</li>`,
  );
  const examples = prose.line(
    'In the examples, `KEY` is an API key, `TOKEN` a sign-in token, and `OPERATOR` a sign-in token with the scope `svc:admin`.',
  );
  return `<p>Version ${escapeHtml(info.version)}.</p><ul>${bases.join('')}</ul><ul>${ways.join('')}</ul><p>${examples}</p>`;
}

function errors({ components: { schemas } }: OpenApiDocument, prose: Prose): string {
  const schema = schemas[nestedError];
  if (schema === undefined) return '';
  const summary = `Fields of every error below <code>/openai/v1</code> <code class="schema">${nestedError}</code>`;
  const links = prose.line('[Errors](errors.md) has every code, and the [shapes](errors.md#shapes).');
  return `<p>${links}</p>${folded(summary, renderFields(schema, { prose, schemas }))}`;
}

type GroupPlace = { href: string; idOf: (operation: Operation) => string; prose: Prose };

function groupList({ name, description, operations }: Group, { href, idOf, prose }: GroupPlace): string {
  const link = `<a href="${escapeHtml(href)}">${escapeHtml(name)}</a>`;
  const list = operationList(operations, (operation) => `${href}#${idOf(operation)}`, idOf);
  return `<p>${prose.line(description)} ${link}</p>${list}`;
}

/** Operations with links to them. With `idOf`, each row has an id. */
function operationList(
  operations: readonly Operation[],
  hrefOf: (operation: Operation) => string,
  idOf?: (operation: Operation) => string,
): string {
  const rows = operations.map((operation) => {
    const { method, path, summary } = operation;
    const id = idOf === undefined ? '' : ` id="${escapeHtml(idOf(operation))}"`;
    const link = `<a href="${escapeHtml(hrefOf(operation))}">${escapeHtml(summary)}</a>`;
    return `<li${id}>${methodMark(method)} <code>${escapeHtml(path)}</code> <span>${link}</span></li>`;
  });
  return `<ul class="operations">${rows.join('')}</ul>`;
}
