import { readFileSync } from 'node:fs';

/** The pages that are written by hand, in the order of the navigation: `<name>.md` beside this file. */
const names = [
  'quick-start',
  'authentication',
  'errors',
  'limits',
  'streaming',
  'batches',
  'waiting',
  'configuration',
  'operating',
  'failures',
  'security',
  'benchmarks',
] as const;

/** The page that is made of the OpenAPI document, the last one. */
export const reference = { name: 'reference', title: 'API reference' } as const;

export function readPages(): { name: string; markdown: string }[] {
  return names.map((name) => ({ name, markdown: readFileSync(new URL(`./${name}.md`, import.meta.url), 'utf8') }));
}
