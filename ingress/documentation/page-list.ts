import { readFileSync } from 'node:fs';

/** The groups of the navigation with their pages, in order, each `<name>.md` beside this file. To add a page, add its name. */
export const pageGroups: readonly { title: string; names: readonly string[] }[] = [
  { title: 'Start', names: ['quick-start', 'authentication', 'keys', 'changelog'] },
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
    title: 'Guides',
    names: ['streaming', 'errors', 'retry-safely', 'limits', 'usage', 'find-a-request', 'waiting'],
  },
  { title: 'Batches and events', names: ['batches', 'webhooks'] },
  {
    title: 'Operators',
    names: [
      'operating',
      'configuration',
      'redis',
      'mongodb',
      'kubernetes',
      'multi-region',
      'failures',
      'security',
      'benchmarks',
    ],
  },
  {
    title: 'Internals',
    names: ['internals/architecture', 'internals/contract', 'internals/decisions', 'internals/glossary'],
  },
];

/** The pages that are made from the OpenAPI document are a group before this one. The first is `reference`, the others are below it. */
export const reference = { title: 'API reference', name: 'reference', before: 'Operators' } as const;

/** The pages that are written by hand, in the order of the navigation. */
export const pageNames: readonly string[] = pageGroups.flatMap(({ names }) => names);

export function readPages(): { name: string; markdown: string }[] {
  return pageNames.map((name) => ({
    name,
    markdown: readFileSync(new URL(`./${name}.md`, import.meta.url), 'utf8'),
  }));
}

/** The name of the page that a link on the page `from` leads to. `link` is relative to its file, without `.md`. */
export function linkedPage(from: string, link: string): string {
  return new URL(link, `http://pages/${from}`).pathname.slice(1);
}
