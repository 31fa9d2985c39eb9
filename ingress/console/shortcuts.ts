import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { isForOperators, type PageName, pages } from './page/console-route.ts';

/** After `g`, the page that each key goes to. */
const goKeys = {
  s: 'service',
  o: 'overview',
  r: 'requests',
  b: 'batches',
  u: 'usage',
  k: 'keys',
} as const satisfies Readonly<Record<string, PageName>>;

const secondWithinMs = 1_500;

type KeyPress = Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey'>;

/** How the keys that open the palette are written on this platform. */
export function paletteKeys(platform: string): string {
  return isApple(platform) ? '⌘K' : 'Ctrl K';
}

/** Whether these keys open the palette: ⌘K on Apple's computers, where Ctrl+K edits text, and Ctrl+K on others. */
export function opensPalette({ key, ctrlKey, metaKey, altKey, shiftKey }: KeyPress, platform: string): boolean {
  if (key.toLowerCase() !== 'k' || altKey || shiftKey) return false;
  return isApple(platform) ? metaKey && !ctrlKey : ctrlKey && !metaKey;
}

function isApple(platform: string): boolean {
  return /^(Mac|iP)/.test(platform);
}

/** What a key does outside of fields: `?` lists the shortcuts, `g` waits for a second key, which goes to a page. */
export function shortcutOf({ key, ctrlKey, metaKey, altKey }: KeyPress, afterG: boolean, isOperator: boolean) {
  if (ctrlKey || metaKey || altKey) return undefined;
  if (key === '?') return 'list' as const;
  if (!afterG) return key === 'g' ? ('g' as const) : undefined;
  const page = Object.hasOwn(goKeys, key) ? goKeys[key as keyof typeof goKeys] : undefined; // `hasOwn` has checked it
  return page === undefined || (isForOperators(page) && !isOperator) ? undefined : { page };
}

/** What is open of the palette and the list of shortcuts. Their keys work on every page, but not while a dialog asks something. */
export function useShortcuts({ isSignedIn, isOperator }: { isSignedIn: boolean; isOperator: boolean }) {
  const [open, setOpen] = useState<'palette' | 'shortcuts'>();
  const pressedG = useRef(Number.NEGATIVE_INFINITY);
  useEffect(() => {
    if (!isSignedIn) return undefined;
    const press = (event: KeyboardEvent) => {
      if (document.querySelector('dialog:modal:not(.palette)')) return;
      if (opensPalette(event, navigator.platform)) {
        event.preventDefault();
        return setOpen((before) => (before === 'palette' ? undefined : 'palette'));
      }
      if (isTyping(event.target)) return;
      const found = shortcutOf(event, performance.now() - pressedG.current < secondWithinMs, isOperator);
      pressedG.current = found === 'g' ? performance.now() : Number.NEGATIVE_INFINITY;
      if (found === 'list') setOpen('shortcuts');
      else if (typeof found === 'object') window.location.hash = found.page;
    };
    window.addEventListener('keydown', press);
    return () => window.removeEventListener('keydown', press);
  }, [isSignedIn, isOperator]);
  return { open, setOpen };
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest('input, textarea, select, [contenteditable]') !== null;
}

/** The shortcuts, in a dialog. */
export function ShortcutsDialog({ isOperator, close }: { isOperator: boolean; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const goTo = Object.entries(goKeys).filter(([, page]) => isOperator || !isForOperators(page));
  const all: (readonly [keys: readonly string[], words: string])[] = [
    [[paletteKeys(navigator.platform)], 'Find, go to a page, or do something'],
    ...goTo.map(([key, page]) => [['g', key], pages[page]] as const),
    [['?'], 'This list'],
  ];
  return h(
    'dialog',
    {
      ref: dialog,
      'aria-labelledby': 'shortcuts-title',
      onClose: close,
      onClick: (event: Event) => event.target === dialog.current && dialog.current?.close(), // beside it
    },
    h('h2', { id: 'shortcuts-title' }, 'Keyboard shortcuts'),
    h(
      'dl',
      { class: 'shortcuts' },
      all.map(([keys, words]) =>
        h(
          'div',
          { key: words },
          h(
            'dt',
            null,
            keys.flatMap((key, index) => [index > 0 && ' ', h('kbd', { key }, key)]),
          ),
          h('dd', null, words),
        ),
      ),
    ),
    h(
      'div',
      { class: 'actions' },
      h('button', { type: 'button', class: 'primary', onClick: () => dialog.current?.close() }, 'Close'),
    ),
  );
}
