import { escapeHtml } from '../../pages/escape-html.ts';
import { createHeadingIds } from '../markdown/heading-ids.ts';
import type { RenderedPage, Section } from '../markdown/render-markdown.ts';
import { type Group, type OpenApiDocument, type Operation, readDocument } from './document/openapi-document.ts';
import { refusalsOf } from './document/refusals.ts';
import { fieldWords } from './render-fields.ts';
import { type OperationContext, renderOperation } from './render-operation.ts';
import { operationList, renderOverview } from './render-overview.ts';

/** A page of the reference. The name of the first is `reference`, the names of groups are below it. */
export type ReferencePage = RenderedPage & { name: string };

export type ReferenceParts = Omit<OperationContext, 'document'> & {
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
