import { reference } from '../page-list.ts';
import { isRefusal, type OpenApiDocument, type Operation, operationsOf } from './openapi-document.ts';

/**
 * Returns the page of the OpenAPI document, from what the renderer made of the prepared document. The renderer lists operations one after
 * another. Here they are grouped by tag, each with its path, its credentials and its errors, which link to the page about errors. The schemas at the end
 * are those that no operation has shown, without those of errors. Throws unless there is one rendered part for each operation.
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

/** Schemas that only descriptions name, for example the events of a stream, which are plain text in the document. */
function otherSchemas(
  schemas: readonly string[],
  parts: readonly string[],
  operations: readonly Operation[],
): string[] {
  const shown = parts.join('');
  const codes = new Set(operations.flatMap(codesOf));
  const others = schemas.filter((schema) => {
    const [, name = ''] = /^### (.*)/.exec(schema) ?? [];
    return !shown.includes(`schema: \`${name}\``) && !codes.has(name);
  });
  if (others.length === 0) return [];
  return ['## Schemas', ...others.map((schema) => plainer(schema).replace(/^- \*\*Type:.*\n+/m, ''))];
}

/** The codes in the descriptions of refusals. The schema of an error has the name of its code. */
function codesOf({ responses }: Operation): string[] {
  const refused = Object.entries(responses).filter(([status]) => isRefusal(status));
  return refused.flatMap(([, { description }]) =>
    [...description.matchAll(/^`(\w+)`: /gm)].map(([, code = '']) => code),
  );
}

function introduction({ info, servers }: OpenApiDocument): string {
  const addresses = servers.map(({ url }) => `\`${url}\``).join(', ');
  return [`# ${reference.title}`, info.description, `Version ${info.version}, at ${addresses}.`].join('\n\n');
}

/** Marks code in descriptions exactly, and names each type of a union, which the renderer shows as one type. */
function plainer(part: string): string {
  return part
    .replace(/\\`([^`]*)\\`/g, (_whole, code: string) => `\`${code.replace(/\\([!-/:-@[-`{-~])/g, '$1')}\``)
    .replace(/^( *)`object`(?: — (.*))?\n\n( *\*\*(?:Any|One) of:\*\*)/gm, (_whole, indent: string, text, choice) =>
      text === undefined ? choice : `${indent}${text}\n\n${choice}`,
    );
}

/** Replaces the renderer's list of method, path, id and tags. */
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

/** One row for each code, with a link to its explanation. */
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
