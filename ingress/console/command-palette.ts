import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { batchLink, findLink, navigationItems, pages, requestLink, searchText } from './page/console-route.ts';
import { Icon, type IconName } from './page/icons.ts';

type Props = { isOperator: boolean; docsUrl: string; close: () => void };

/** A search for pages and ids, worked by keyboard or mouse (ARIA combobox with a list). */
export function CommandPalette({ isOperator, docsUrl, close }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState('');
  const [chosen, setChosen] = useState(0);
  useEffect(() => dialog.current?.showModal(), []);
  const entries = paletteEntries(typed, { isOperator, docsUrl });
  const active = Math.min(chosen, entries.length - 1);
  useEffect(() => {
    document.getElementById(optionId(active))?.scrollIntoView({ block: 'nearest' });
  }, [active]);

  function go(entry: PaletteEntry | undefined): void {
    if (entry === undefined) return;
    dialog.current?.close();
    window.location.href = entry.href;
  }

  function press(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) setChosen((active + step + entries.length) % Math.max(1, entries.length));
    else if (event.key === 'Enter') go(entries[active]);
    else return;
    event.preventDefault();
  }

  return h(
    'dialog',
    {
      ref: dialog,
      class: 'palette',
      'aria-label': 'Go to',
      onClose: close,
      onClick: (event: Event) => event.target === dialog.current && dialog.current?.close(), // beside it
    },
    h(
      'div',
      { class: 'palette-field' },
      h(Icon, { name: 'search' }),
      h('input', {
        type: 'text',
        role: 'combobox',
        'aria-label': isOperator ? 'A page, or what to find' : 'A page, or the id of a request or batch',
        'aria-expanded': true,
        'aria-controls': 'palette-list',
        'aria-autocomplete': 'list',
        ...(entries.length > 0 && { 'aria-activedescendant': optionId(active) }),
        placeholder: isOperator ? 'Page, account, key, request, batch or file' : 'Page, request or batch',
        autocomplete: 'off',
        spellcheck: false,
        maxLength: 300,
        value: typed,
        onInput({ currentTarget }: { currentTarget: HTMLInputElement }) {
          setTyped(currentTarget.value);
          setChosen(0);
        },
        onKeyDown: press,
      }),
    ),
    h(Results, { entries, active, go, point: setChosen }),
    entries.length === 0 && h('p', { class: 'quiet', role: 'status' }, `Nothing is named "${typed}".`),
  );
}

type ResultsProps = {
  entries: readonly PaletteEntry[];
  active: number;
  go: (entry: PaletteEntry) => void;
  point: (index: number) => void;
};

function Results({ entries, active, go, point }: ResultsProps) {
  return h(
    'ul',
    { id: 'palette-list', role: 'listbox', 'aria-label': 'Results' },
    entries.map((entry, index) =>
      h(
        'li',
        {
          key: entry.href,
          id: optionId(index),
          role: 'option',
          'aria-selected': index === active,
          onClick: () => go(entry),
          onMouseMove: () => point(index),
        },
        h(Icon, { name: entry.icon }),
        h('span', null, entry.title),
        entry.hint !== undefined && h('span', { class: 'quiet' }, entry.hint),
      ),
    ),
  );
}

function optionId(index: number): string {
  return `palette-option-${index}`;
}

/** Something that the palette can go to. */
type PaletteEntry = { title: string; hint?: string; icon: IconName; href: string };

/** Other words under which people look for a page. */
const otherWords: Readonly<Record<string, string>> = {
  overview: 'home start limits',
  requests: 'log history errors',
  batches: 'jobs files upload',
  usage: 'quota billing cost tokens top up overage plan',
  keys: 'api key secret guest device',
  webhooks: 'events',
  'try-it': 'playground chat test',
  find: 'search support',
  fleet: 'workers ingresses pools backends queue breaker health',
  accounts: 'users suspend plan',
  'all-usage': 'billing cost',
  audit: 'changes history',
  'top-up-codes': 'payment',
  settings: 'plan file models processes',
};

/** What fits the typed text: pages, and whatever has this id. Pages whose title begins with the text come first. */
export function paletteEntries(typed: string, { isOperator, docsUrl }: { isOperator: boolean; docsUrl: string }) {
  const text = typed.trim();
  const words = text.toLowerCase();
  const found = navigationItems({ isOperator })
    .filter(({ page, title }) => `${title} ${otherWords[page] ?? ''}`.toLowerCase().includes(words))
    .toSorted((one, other) => rankOf(one.title, words) - rankOf(other.title, words))
    .map(({ page, title, icon }): PaletteEntry => ({ title, icon, href: `#${page}` }));
  const docs: PaletteEntry = { title: 'Documentation', icon: 'book', href: docsUrl };
  const isDocs = docs.title.toLowerCase().includes(words) || 'help'.includes(words);
  return [...namedBy(text), ...found, ...(isDocs ? [docs] : []), ...searchFor(text, isOperator)];
}

function rankOf(title: string, words: string): number {
  const place = title.toLowerCase().indexOf(words);
  return place === -1 ? Number.MAX_SAFE_INTEGER : place;
}

function searchFor(text: string, isOperator: boolean): PaletteEntry[] {
  const wanted = searchText(text);
  if (!isOperator || wanted === '') return [];
  return [{ title: `${pages.find} "${wanted}"`, hint: 'in all accounts', icon: 'search', href: findLink(wanted) }];
}

/** A request or a batch of the own account, by its id. */
function namedBy(text: string): PaletteEntry[] {
  if (/^batch_\w+$/.test(text)) return [{ title: text, hint: 'batch', icon: 'batches', href: batchLink(text) }];
  if (/^(req|chatcmpl|resp|msg|cmpl)[_-][\w-]+$/.test(text))
    return [{ title: text, hint: 'request', icon: 'requests', href: requestLink(text) }];
  return [];
}

/** How the keys that open the palette are written on this platform. */
export function paletteKeys(platform: string): string {
  return isApple(platform) ? '⌘K' : 'Ctrl K';
}

/** Whether these keys open the palette: ⌘K on Apple's computers, where Ctrl+K edits text, and Ctrl+K on others. */
export function opensPalette({ key, ctrlKey, metaKey, altKey, shiftKey }: KeyboardEvent, platform: string): boolean {
  if (key.toLowerCase() !== 'k' || altKey || shiftKey) return false;
  return isApple(platform) ? metaKey && !ctrlKey : ctrlKey && !metaKey;
}

function isApple(platform: string): boolean {
  return /^(Mac|iP)/.test(platform);
}
