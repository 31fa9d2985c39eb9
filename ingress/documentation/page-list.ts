import { readFileSync } from 'node:fs';

/** The page that is generated from the OpenAPI document. */
export const reference = { name: 'reference', title: 'API reference' } as const;

/**
 * The groups of the navigation with their pages, in order. Each page is `<name>.md` beside this file, except the reference. To add a page,
 * add its name.
 */
export const pageGroups: readonly { title: string; names: readonly string[] }[] = [
  {
    title: 'Guides',
    names: [
      'quick-start',
      'authentication',
      'keys',
      'errors',
      'retry-safely',
      'limits',
      'usage',
      'streaming',
      'batches',
      'webhooks',
      'find-a-request',
      'waiting',
      'configuration',
      'operating',
      'redis',
      'mongodb',
      'kubernetes',
      'multi-region',
      'failures',
      'security',
      'benchmarks',
      reference.name,
    ],
  },
  {
    title: 'Endpoints',
    names: [
      'endpoints/chat',
      'endpoints/responses',
      'endpoints/messages',
      'endpoints/completions',
      'endpoints/embeddings',
      'endpoints/rerank',
    ],
  },
  {
    title: 'Internals',
    names: ['internals/architecture', 'internals/contract', 'internals/decisions', 'internals/glossary'],
  },
];

export const pageNames: readonly string[] = pageGroups.flatMap(({ names }) => names);

/** The pages that are written by hand, in the order of the navigation. */
export function readPages(): { name: string; markdown: string }[] {
  return pageNames
    .filter((name) => name !== reference.name)
    .map((name) => ({ name, markdown: readFileSync(new URL(`./${name}.md`, import.meta.url), 'utf8') }));
}

/** The name of the page that a link on the page `from` leads to. `link` is relative to its file, without `.md`. */
export function linkedPage(from: string, link: string): string {
  return new URL(link, `http://pages/${from}`).pathname.slice(1);
}
