import type { SearchEntry } from '../browser/search-options.ts';
import type { RenderedPage } from '../markdown/render-markdown.ts';

/** How much an entry counts beside others with the same words: readers of the API first, then operators, then developers. */
const weights: readonly { pages: RegExp; weight: number }[] = [
  { pages: /^internals\//, weight: 0.25 },
  { pages: /^(changelog|benchmarks)$/, weight: 0.4 },
  { pages: /^reference(\/|$)/, weight: 0.8 },
];

/** What the search finds: the beginning of each page, and each part of it that has a heading. */
export function searchEntries(pages: readonly (RenderedPage & { name: string })[]): SearchEntry[] {
  return pages.flatMap(({ name, title, content, sections }) => {
    const weight = weights.find((one) => one.pages.test(name))?.weight ?? 1;
    const page = name.startsWith('reference/') ? `API reference: ${title}` : title;
    return [
      { id: name, page, title: page, text: content, weight: weight * 1.2 },
      ...sections.map(({ id, text, content: own }) => ({ id: `${name}#${id}`, page, title: text, text: own, weight })),
    ];
  });
}
