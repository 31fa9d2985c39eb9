import { readPages } from '../../ingress/documentation/page-list.ts';
import { type Example, examplesOf } from '../support/documentation/page-examples.ts';

/** The page with settings of other programs. */
export const page = readPages().find(({ name }) => name === 'use-it-from')?.markdown ?? '';

type Row = { client: string; packages: Readonly<Record<string, string>>; isRun: boolean };
export type Block = Extract<Example, { role: 'client' }>;

/** The table of clients, with the versions of the packages that were tried. */
export const rows: readonly Row[] = [...page.matchAll(/^\| \[(.*?)\]\(#.*\| ([^|]*) \|$/gm)].map(
  ([, client = '', tried = '']) => ({
    client,
    packages: Object.fromEntries(
      Array.from(tried.matchAll(/`([^`]+)` (\d[\w.]*)/g), ([, name, version]) => [name, version]),
    ),
    isRun: tried !== 'not run',
  }),
);

/** The blocks of each client, by the package that they name. `markdown` is the page as its reader sees it. */
export function blocksOf(markdown: string): ReadonlyMap<string, Block[]> {
  return Map.groupBy(
    examplesOf(markdown).filter((example) => example.role === 'client'),
    ({ client }) => client,
  );
}

/** The packages of the row that names this one. */
export function packagesOf(client: string): Readonly<Record<string, string>> {
  return rows.find(({ packages }) => packages[client] !== undefined)?.packages ?? {};
}
