import { useEffect, useRef } from 'preact/hooks';

/**
 * Moves the focus to the heading of this part of the page when the focused element is removed: a keyboard user must not start again at
 * the top of the page. Stops when the returned function is called.
 */
export function keepFocus(part: HTMLElement): () => void {
  let last: Element | null = null;
  const remember = () => {
    last = document.activeElement;
  };
  const changes = new MutationObserver(() => {
    const isLost = last !== null && !last.isConnected && document.activeElement === document.body;
    if (isLost) part.querySelector<HTMLElement>('h1')?.focus({ preventScroll: true });
  });
  part.addEventListener('focusin', remember);
  changes.observe(part, { childList: true, subtree: true });
  return () => {
    part.removeEventListener('focusin', remember);
    changes.disconnect();
  };
}

/**
 * Moves the focus to the heading of a new page, or to the section that its address names; the first page keeps the browser's default focus.
 */
export function useFocusOn(main: { current: HTMLElement | null }, place: string): void {
  const before = useRef(place);
  useEffect(() => {
    if (before.current === place) return;
    before.current = place;
    window.scrollTo(0, 0);
    const goal = main.current?.querySelector<HTMLElement>('[data-goal]') ?? main.current?.querySelector('h1');
    goal?.focus();
  }, [place]);
}

/** For the heading of a part that appears with something to store: it has the focus from then on. */
export function useFocusedHeading() {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    // Later: a dialog that is still open lets nothing outside of it have the focus, and returns the focus when it closes.
    const timer = setTimeout(() => heading.current?.focus());
    return () => clearTimeout(timer);
  }, []);
  return heading;
}
