import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { FoundThing } from '../routes/find.ts';
import type { Api } from './api/api.ts';
import { type AccountAction, searchText } from './page/console-route.ts';
import { Icon } from './page/icons.ts';
import { accountQuestions, type PaletteEntry, paletteEntries } from './palette-entries.ts';

type Props = {
  api: Api;
  isOperator: boolean;
  docsUrl: string;
  account: string;
  signOut: () => void;
  showShortcuts: () => void;
  close: () => void;
};

/** A search for pages, actions, ids and accounts, worked by keyboard or mouse (ARIA combobox with a list). */
export function CommandPalette({ api, isOperator, docsUrl, account, signOut, showShortcuts, close }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState('');
  const [chosen, setChosen] = useState(0);
  const [asking, setAsking] = useState<AccountAction>();
  useEffect(() => dialog.current?.showModal(), []);
  const found = useFound(api, isOperator ? searchText(typed) : '');
  const entries = paletteEntries(typed, { isOperator, docsUrl, found, asking });
  const active = Math.min(chosen, entries.length - 1);
  useEffect(() => {
    document.getElementById(optionId(active))?.scrollIntoView({ block: 'nearest' });
  }, [active]);

  function type(text: string): void {
    setTyped(text);
    setChosen(0);
  }

  function go(entry: PaletteEntry | undefined): void {
    if (entry === undefined) return;
    if ('asks' in entry) {
      setAsking(entry.asks);
      type('');
      return;
    }
    dialog.current?.close();
    if ('href' in entry) window.location.href = entry.href;
    else if (entry.does === 'sign out') signOut();
    else if (entry.does === 'show shortcuts') showShortcuts();
    else void navigator.clipboard.writeText(account).catch(() => {}); // it is also in the navigation, to be selected
  }

  function press(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) setChosen((active + step + entries.length) % Math.max(1, entries.length));
    else if (event.key === 'Enter') go(entries[active]);
    else if (event.key === 'Backspace' && typed === '' && asking !== undefined) setAsking(undefined);
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
      asking !== undefined && h('span', { class: 'quiet' }, accountQuestions[asking]),
      h('input', {
        type: 'text',
        role: 'combobox',
        'aria-label': labelOf(isOperator, asking),
        'aria-expanded': true,
        'aria-controls': 'palette-list',
        'aria-autocomplete': 'list',
        ...(entries.length > 0 && { 'aria-activedescendant': optionId(active) }),
        placeholder: placeholderOf(isOperator, asking),
        autocomplete: 'off',
        spellcheck: false,
        maxLength: 300,
        value: typed,
        onInput: ({ currentTarget }: { currentTarget: HTMLInputElement }) => type(currentTarget.value),
        onKeyDown: press,
      }),
    ),
    h(Results, { entries, active, go, point: setChosen }),
    entries.length === 0 &&
      h('p', { class: 'quiet', role: 'status' }, typed === '' ? 'Type the account or the name.' : nothing(typed)),
  );
}

function nothing(typed: string): string {
  return `Nothing is named "${typed}".`;
}

function labelOf(isOperator: boolean, asking: AccountAction | undefined): string {
  if (asking !== undefined) return `${accountQuestions[asking]} which account`;
  return isOperator ? 'A page, an action, or what to find' : 'A page, an action, or the id of a request or batch';
}

function placeholderOf(isOperator: boolean, asking: AccountAction | undefined): string {
  if (asking !== undefined) return 'Account or name';
  return isOperator ? 'Page, action, account, key, request, batch or file' : 'Page, action, request or batch';
}

const findAfterMs = 200;
const findFrom = 2;

/** What the service finds in all accounts, once the typing has paused. */
function useFound(api: Api, text: string): readonly FoundThing[] {
  const [found, setFound] = useState<{ text: string; things: readonly FoundThing[] }>({ text: '', things: [] });
  useEffect(() => {
    if (text.length < findFrom) return undefined;
    const leaving = new AbortController();
    const { signal } = leaving;
    const timer = setTimeout(() => {
      api.call<{ data: FoundThing[] }>(`/admin/find?${new URLSearchParams({ text })}`, { signal }).then(
        ({ data }) => signal.aborted || setFound({ text, things: data }),
        () => {}, // the page "Find" says why
      );
    }, findAfterMs);
    return () => {
      clearTimeout(timer);
      leaving.abort();
    };
  }, [api, text]);
  return found.text === text ? found.things : [];
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
          key: `${entry.title} ${entry.hint}`,
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
