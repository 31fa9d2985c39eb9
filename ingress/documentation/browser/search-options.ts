import type { Options } from 'minisearch';

/** A part of a page that the search finds. `id` is its address below that of the documentation: `errors#NO_AUTH`. */
export type SearchEntry = { id: string; page: string; title: string; text: string; weight: number };

/** The service makes the index with these options, and the browser reads it with the same. */
export const indexOptions: Options<SearchEntry> = {
  fields: ['title', 'page', 'text'],
  storeFields: ['page', 'title', 'text', 'weight'],
  searchOptions: {
    combineWith: 'AND',
    prefix: true,
    fuzzy: (term) => (term.length > 5 ? 0.15 : false),
    boost: { title: 4, page: 2 },
    boostDocument: (_id, _term, stored) => Number(stored?.weight),
  },
};
