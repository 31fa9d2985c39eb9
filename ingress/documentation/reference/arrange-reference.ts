import { reference } from '../page-list.ts';
import { isRefusal, type OpenApiDocument, type Operation, operationsOf } from './openapi-document.ts';

/**
 * The page of the document, of what its renderer has made of the prepared one: there operations stand one after another; here they
 * stand under their tags, each with its path, its credentials and its refusals, which lead to the page of errors. Of the schemas at the
 * end those are kept that no operation has shown, and that no refusal is. Throws where there is not one part for each operation.
 */
export function arrangeReference(markdown: string, document: OpenApiDocument): string {
  const parts = partsUnder('Operations', markdown);
  const operations = operationsOf(document);
  if (parts.length !== operations.length) {
    throw new Error(`${parts.length} of ${operations.length} operations were rendered`);
  }
  const described = operations.map((operation, index) => ({
    tag: operation.tags[0] ?? 'Other',
    text: [withHead(plainer(parts[index] ?? ''), { operation, document }), refusals(operation)].join('\n\n'),
  }));
  const tags = new Map(document.tags.map(({ name, description }) => [name, description]));
  const chapters = [...new Set([...tags.keys(), ...described.map(({ tag }) => tag)])]
    .map((tag) => ({ tag, of: described.filter((one) => one.tag === tag) }))
    .filter(({ of }) => of.length > 0)
    .map(({ tag, of }) => [`## ${tag}`, tags.get(tag) ?? '', ...of.map(({ text }) => text)].join('\n\n'));
  const others = otherSchemas(partsUnder('Schemas', markdown), parts, operations);
  return [introduction(document), ...chapters, ...others].join('\n\n');
}

function partsUnder(heading: string, markdown: string): string[] {
  const [, rendered = ''] = new RegExp(`^## ${heading}\\n(.*?)(?=^## |(?![\\s\\S]))`, 'ms').exec(markdown) ?? [];
  return rendered.split(/^(?=### )/m).filter((part) => part.startsWith('### '));
}

/** What is told of in words alone: the events of a stream, for instance, which are text to the document. */
function otherSchemas(
  schemas: readonly string[],
  parts: readonly string[],
  operations: readonly Operation[],
): string[] {
  const shown = parts.join('');
  const refusals = JSON.stringify(
    operations.map(({ responses }) => Object.entries(responses).filter(([status]) => isRefusal(status))),
  );
  const others = schemas.filter((schema) => {
    const [, name = ''] = /^### (.*)/.exec(schema) ?? [];
    return !shown.includes(`schema: \`${name}\``) && !refusals.includes(`"#/components/schemas/${name}"`);
  });
  if (others.length === 0) return [];
  return ['## Schemas', ...others.map((schema) => plainer(schema).replace(/^- \*\*Type:.*\n+/m, ''))];
}

function introduction({ info, servers }: OpenApiDocument): string {
  const addresses = servers.map(({ url }) => `\`${url}\``).join(', ');
  return [`# ${reference.title}`, info.description, `Version ${info.version}, at ${addresses}.`].join('\n\n');
}

/** Code is marked as such in descriptions, letter for letter; and a choice between types is not one type, whatever the renderer calls it. */
function plainer(part: string): string {
  return part
    .replace(/\\`([^`]*)\\`/g, (_whole, code: string) => `\`${code.replace(/\\([!-/:-@[-`{-~])/g, '$1')}\``)
    .replace(/^( *)`object`(?: — (.*))?\n\n( *\*\*(?:Any|One) of:\*\*)/gm, (_whole, indent: string, text, choice) =>
      text === undefined ? choice : `${indent}${text}\n\n${choice}`,
    );
}

/** In place of the list that says method, path, id and tags one by one. */
function withHead(part: string, { operation, document }: { operation: Operation; document: OpenApiDocument }): string {
  const { method, path } = operation;
  const head = `\`${method.toUpperCase()} ${path}\`\n\n${credentials(operation, document)}\n`;
  return part.trimEnd().replace(/^(### .*\n\n)(?:- \*\*.*\n)+/, (_whole, title: string) => title + head);
}

function credentials({ security }: Operation, { components }: OpenApiDocument): string {
  if (security.length === 0) return 'Needs no credential.';
  const ways = security.map((way) =>
    Object.entries(way)
      .map(([name, scopes]) => {
        const scope = scopes.length > 0 ? ` With the scope \`${scopes.join(' ')}\`.` : '';
        return `${components.securitySchemes[name]?.description ?? name}${scope}`;
      })
      .join(' '),
  );
  return ways.join('\n\nOr: ');
}

const startsWithCode = /^`(\w+)`: /;

/** One row for each code, which leads to what can be done about it. */
function refusals({ responses }: Operation): string {
  const rows = Object.entries(responses)
    .filter(([status]) => isRefusal(status))
    .flatMap(([status, { description }]) =>
      description.split(/\n\n(?=`\w+`: )/).map((text) => {
        const code = startsWithCode.exec(text)?.[1];
        const link = code === undefined ? '' : `[\`${code}\`](errors.md#${code})`;
        return `| ${status} | ${link} | ${cellOf(text.replace(startsWithCode, ''))} |`;
      }),
    );
  if (rows.length === 0) return '';
  return ['#### Refusals', '', '| status | code | when |', '|---|---|---|', ...rows].join('\n');
}

function cellOf(text: string): string {
  const line = text
    .replace(/\.?\n\n- /, ': ')
    .replace(/\n- /g, '; ')
    .replace(/\s*\n\s*/g, ' ');
  return line.replaceAll('|', '\\|');
}
