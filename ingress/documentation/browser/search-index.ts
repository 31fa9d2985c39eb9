import type { Options } from 'minisearch';
import MiniSearch from 'minisearch';

/** A found part of a page. `terms` are the words in it that were searched for. */
export type Hit = Omit<SearchEntry, 'keywords'> & { terms: string[] };

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

/** A part of a page that the search finds. `id` is its address below that of the documentation: `errors#NO_AUTH`. */
export type SearchEntry = {
  id: string;
  page: string;
  title: string;
  text: string;
  weight: number;
  /** Other words that readers type for it. They are not shown. */
  keywords: string;
};

/** What a question has beside its subject. */
const questionWords = new Set('a an the i my do does can how what to of is are in'.split(' '));

/** The service makes the index with these options, and the browser reads it with the same. */
export const indexOptions: Options<SearchEntry> = {
  fields: ['title', 'page', 'text', 'keywords'],
  processTerm: (term) => (questionWords.has(term.toLowerCase()) ? null : term.toLowerCase()),
  storeFields: ['page', 'title', 'text', 'weight'],
  searchOptions: {
    combineWith: 'AND',
    prefix: true,
    fuzzy: (term) => (term.length > 5 ? 0.15 : false),
    boost: { title: 4, page: 2, keywords: 12 },
    boostDocument: (_id, _term, stored) => Number(stored?.weight),
  },
};
