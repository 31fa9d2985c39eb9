import { z } from 'zod';
import { reference } from '../page-list.ts';

const operation = z.looseObject({ tags: z.array(z.string()).optional() });

/** As much of an OpenAPI document (3.1) as its page is arranged by. */
export const documentSchema = z.looseObject({
  info: z.looseObject({ description: z.string().optional(), version: z.string() }),
  servers: z.array(z.looseObject({ url: z.string() })).default([]),
  tags: z.array(z.looseObject({ name: z.string(), description: z.string().optional() })).default([]),
  paths: z.record(z.string(), z.looseObject({})),
});

type Document = z.infer<typeof documentSchema>;
type Operation = { method: string; path: string; tag: string };

/** The renderer repeats them under each operation. */
export function withoutServers(document: unknown): Record<string, unknown> {
  const { servers: _, ...rest } = documentSchema.parse(document);
  return rest;
}

const methods = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'];

/**
 * The renderer's Markdown, which has the operations one after another under one heading, by the tags of the document: what it
 * says of each stays, with method and path in one line. What the whole document has in common comes first, and the schemas at
 * its end, which every operation shows where it has them, are left out. Throws where it has not one part for each operation.
 */
export function arrangeReference(markdown: string, document: Document): string {
  const [, operations = ''] = /^## Operations\n(.*?)(?=^## |(?![\s\S]))/ms.exec(markdown) ?? [];
  const parts = operations.split(/^(?=### )/m).filter((part) => part.startsWith('### '));
  const known = operationsOf(document);
  if (parts.length !== known.length) throw new Error(`${parts.length} of ${known.length} operations were rendered`);
  const described = known.map((one, index) => ({ ...one, text: withPath(parts[index] ?? '', one) }));
  const tags = new Map(document.tags.map(({ name, description = '' }) => [name, description]));
  const named = [...new Set([...tags.keys(), ...known.map(({ tag }) => tag)])];
  const chapters = named
    .map((tag) => ({ tag, of: described.filter((one) => one.tag === tag) }))
    .filter(({ of }) => of.length > 0)
    .map(({ tag, of }) => [`## ${tag}`, tags.get(tag) ?? '', ...of.map(({ text }) => text)].join('\n\n'));
  return [introduction(document), ...chapters].join('\n\n');
}

function introduction({ info, servers }: Document): string {
  const addresses = servers.map(({ url }) => `\`${url}\``).join(', ');
  return [`# ${reference.title}`, info.description ?? '', `Version ${info.version}, at ${addresses}.`].join('\n\n');
}

/** In the order in which the document has them, which is the renderer's. */
function operationsOf({ paths }: Document): Operation[] {
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([method]) => methods.includes(method))
      .map(([method, value]) => ({ method, path, tag: operation.parse(value).tags?.[0] ?? 'Other' })),
  );
}

/** In place of the list that says method, path, id and tags one by one. */
function withPath(part: string, { method, path }: Operation): string {
  return part.trimEnd().replace(/^(### .*\n\n)(?:- \*\*.*\n)+/, `$1\`${method.toUpperCase()} ${path}\`\n`);
}
