import { element } from './elements.ts';
import { type Hit, readSearchIndex, type SearchIndex } from './search-index.ts';
import { createSearchResults, type SearchResults } from './search-results.ts';

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
