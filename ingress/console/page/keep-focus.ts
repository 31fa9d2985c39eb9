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
