import { element } from './elements.ts';
import { excerptOf } from './excerpt.ts';
import type { Hit } from './search-index.ts';

type Deps = { onSelect: (option: HTMLElement | undefined) => void; onOpen: (found: Hit, event: MouseEvent) => void };

/** The list below the search field, with one selected result. */
export function createSearchResults({ onSelect, onOpen }: Deps) {
  // Its options are chosen from the field; without the attribute, browsers would make it a stop because it can be scrolled.
  const list = element('ul', { role: 'listbox', id: 'search-results', 'aria-label': 'Results', tabindex: '-1' });
  let shown: readonly Hit[] = [];
  let at = -1;

  function select(index: number): void {
    at = index;
    for (const [number, option] of [...list.children].entries()) {
      option.setAttribute('aria-selected', String(number === index));
    }
    const option = list.children[index];
    option?.scrollIntoView({ block: 'nearest' });
    onSelect(option instanceof HTMLElement ? option : undefined);
  }

  return {
    list,
    show(found: readonly Hit[]): void {
      shown = found;
      list.replaceChildren(
        ...found.map((one, index) => {
          const option = optionOf(one, index);
          option.addEventListener('click', (event) => onOpen(one, event));
          return option;
        }),
      );
      select(found.length > 0 ? 0 : -1);
    },
    /** Selects the next result, or the previous one for -1. */
    move(step: 1 | -1): void {
      if (shown.length > 0) select((at + step + shown.length) % shown.length);
    },
    /** The selected result, if there is one. */
    selected: (): Hit | undefined => shown[at],
  };
}

export type SearchResults = ReturnType<typeof createSearchResults>;

function optionOf({ page, title, text, terms }: Hit, index: number): HTMLElement {
  const pieces = (of: string) =>
    excerptOf(of, terms).map((piece) => (piece.isMatch ? element('mark', {}, piece.text) : piece.text));
  return element(
    'li',
    { role: 'option', id: `search-result-${index}`, 'aria-selected': 'false' },
    element('span', { class: 'result-title' }, ...pieces(title)),
    ...(page === title ? [] : [' ', element('span', { class: 'result-page' }, page)]),
    ' ',
    element('span', { class: 'result-text' }, ...pieces(text)),
  );
}
