import { escapeHtml } from '../../pages/escape-html.ts';
import type { Prose } from '../markdown/prose.ts';
import type { RenderedPage, Section } from '../markdown/render-markdown.ts';
import type { Group, OpenApiDocument, Operation } from './document/openapi-document.ts';
import { folded, renderFields } from './render-fields.ts';
import { methodMark } from './render-operation.ts';

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
export function renderOverview({ document, ids, href, prose }: Overview): RenderedPage {
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
export function operationList(
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
