import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon } from './icons.ts';
import { type PaletteEntry, paletteEntries } from './palette-entries.ts';

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
