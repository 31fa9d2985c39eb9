import MiniSearch from 'minisearch';
import { indexOptions, type SearchEntry } from './search-options.ts';

/** A found part of a page. `terms` are the words in it that were searched for. */
export type Hit = SearchEntry & { terms: string[] };

export type SearchIndex = { find(query: string): Hit[] };

const foundMax = 12;
/** If fewer parts have all of the words, parts with some of them follow. */
const enough = 4;

export function readSearchIndex(json: string): SearchIndex {
  const index = MiniSearch.loadJSON<SearchEntry>(json, indexOptions);
  return {
    find(query) {
      const all = index.search(query);
      const some = all.length < enough ? index.search(query, { combineWith: 'OR' }) : [];
      const ids = new Set(all.map(({ id }) => id));
      const results = [...all, ...some.filter(({ id }) => !ids.has(id))];
      return results.slice(0, foundMax).map(({ id, page, title, text, weight, terms }) => ({
        id,
        page,
        title,
        text,
        weight,
        terms,
      }));
    },
  };
}
