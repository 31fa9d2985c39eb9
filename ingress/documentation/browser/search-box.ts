import { element } from './elements.ts';
import { type Hit, readSearchIndex, type SearchIndex } from './search-index.ts';

const unavailable = 'The search is not available right now. Reload the page.';

type Place = { index: string; home: string };

/** Puts the search into its place in the header. The index is loaded when the field gets the focus. */
export function addSearch(): void {
  const place = document.querySelector<HTMLElement>('.search');
  const { index, home } = place?.dataset ?? {};
  if (place === null || index === undefined || home === undefined) return;
  const field = createField();
  const status = element('p', { role: 'status', class: 'search-status' });
  const results = createSearchResults({
    onSelect: (option) => setOrRemove(field, 'aria-activedescendant', option?.id),
    onOpen: (found, event) => open(found, event.ctrlKey || event.metaKey),
  });
  const panel = element('div', { class: 'search-panel' }, status, results.list);
  const key = element('kbd', { 'aria-hidden': 'true' }, '/');
  place.append(field, key, panel);

  const setOpen = (isOpen: boolean) => {
    panel.hidden = !isOpen;
    field.setAttribute('aria-expanded', String(isOpen));
  };
  const open = ({ id }: Hit, inNewTab: boolean) => {
    setOpen(false);
    const address = `${home}/${id}`;
    if (inNewTab) window.open(address);
    else location.assign(address);
  };
  setOpen(false);
  const loaded = loadOnce({ index, home });
  const update = async () => {
    const searchIndex = await loaded().catch(() => undefined);
    const query = field.value.trim(); // as it is now: it may have changed while the index was loading
    if (query === '') return setOpen(false);
    const found = searchIndex?.find(query);
    results.show(found ?? []);
    status.textContent = found === undefined ? unavailable : countText(found.length);
    setOpen(true);
  };
  field.addEventListener('focus', () => void loaded().catch(() => {}));
  field.addEventListener('input', () => void update());
  field.addEventListener('keydown', (event) => onKey(event, { field, results, open, setOpen }));
  field.addEventListener('click', () => void update());
  place.addEventListener('focusout', ({ relatedTarget }) => {
    if (!(relatedTarget instanceof Node && place.contains(relatedTarget))) setOpen(false);
  });
  panel.addEventListener('mousedown', (event) => event.preventDefault()); // the field keeps the focus
  document.addEventListener('keydown', (event) => focusByKey(event, field));
}

function createField(): HTMLInputElement {
  return element('input', {
    type: 'search',
    role: 'combobox',
    'aria-label': 'Search the documentation',
    'aria-expanded': 'false',
    'aria-controls': 'search-results',
    'aria-autocomplete': 'list',
    'aria-keyshortcuts': '/ Control+K Meta+K',
    placeholder: 'Search',
    autocomplete: 'off',
    spellcheck: 'false',
  });
}

/** Loads the index once; after a failure again at the next call. */
function loadOnce({ index }: Place): () => Promise<SearchIndex> {
  let loading: Promise<SearchIndex> | undefined;
  return () => {
    loading ??= load(index).catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };
}

async function load(address: string): Promise<SearchIndex> {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`the index has the status ${response.status}`);
  return readSearchIndex(await response.text());
}

function countText(count: number): string {
  if (count === 0) return 'No results.';
  return count === 1 ? '1 result' : `${count} results`;
}

type Parts = {
  field: HTMLInputElement;
  results: SearchResults;
  open: (found: Hit, inNewTab: boolean) => void;
  setOpen: (isOpen: boolean) => void;
};

function onKey(event: KeyboardEvent, { field, results, open, setOpen }: Parts): void {
  const { key } = event;
  if (key === 'ArrowDown' || key === 'ArrowUp') {
    event.preventDefault();
    results.move(key === 'ArrowDown' ? 1 : -1);
  } else if (key === 'Enter') {
    const selected = results.selected();
    if (selected !== undefined && field.getAttribute('aria-expanded') === 'true') open(selected, event.ctrlKey);
  } else if (key === 'Escape') {
    event.preventDefault(); // browsers would clear the field first
    if (field.getAttribute('aria-expanded') === 'true') setOpen(false);
    else field.blur();
  }
}

/** `/` outside of fields, and Ctrl+K or ⌘K anywhere. */
function focusByKey(event: KeyboardEvent, field: HTMLInputElement): void {
  const isSlash = event.key === '/' && !event.ctrlKey && !event.metaKey && !event.altKey && !isTyping(event.target);
  const isK = event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
  if (!isSlash && !isK) return;
  event.preventDefault();
  field.focus();
  field.select();
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches('input, textarea, select, [contenteditable]');
}

function setOrRemove(target: Element, name: string, value: string | undefined): void {
  if (value === undefined) target.removeAttribute(name);
  else target.setAttribute(name, value);
}

type Deps = { onSelect: (option: HTMLElement | undefined) => void; onOpen: (found: Hit, event: MouseEvent) => void };

/** The list below the search field, with one selected result. */
function createSearchResults({ onSelect, onOpen }: Deps) {
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

type SearchResults = ReturnType<typeof createSearchResults>;

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

/** A piece of a text; `isMatch` if it was searched for. */
type Piece = { text: string; isMatch: boolean };

const before = 40;
const lengthMax = 150;

/** The part of a text around the first of these words, in pieces. The whole text if it is short, its beginning if no word is in it. */
export function excerptOf(text: string, words: readonly string[]): Piece[] {
  const pattern =
    words.length === 0 ? undefined : new RegExp(`(?<![\\p{L}\\p{N}])(${words.map(escaped).join('|')})`, 'giu');
  const first = pattern === undefined ? 0 : Math.max(text.search(pattern), 0);
  const from = first <= before ? 0 : text.indexOf(' ', first - before) + 1;
  const shown = text.slice(from, from + lengthMax);
  const part = `${from > 0 ? '… ' : ''}${shown}${from + lengthMax < text.length ? '…' : ''}`;
  if (pattern === undefined) return [{ text: part, isMatch: false }];
  // With a group in the pattern, every second piece is a match.
  return part
    .split(pattern)
    .map((piece, index) => ({ text: piece, isMatch: index % 2 === 1 }))
    .filter((piece) => piece.text !== '');
}

function escaped(word: string): string {
  return word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
