import MiniSearch from 'minisearch';
import { indexOptions } from '../browser/search-options.ts';
import type { RenderedPage } from '../markdown/render-markdown.ts';
import { searchEntries } from './search-entries.ts';

/** The index of all pages as JSON, for `ingress/documentation/browser/search-index.ts`. */
export function buildSearchIndex(pages: readonly (RenderedPage & { name: string })[]): string {
  const index = new MiniSearch(indexOptions);
  index.addAll(searchEntries(pages));
  return JSON.stringify(index);
}
