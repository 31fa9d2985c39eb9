import { type ComponentChildren, createContext, h } from 'preact';
import { useContext } from 'preact/hooks';
import type { Product } from '../session/browser.ts';

/** How the service presents itself, for every part of the page. */
export const ProductContext = createContext<Product>({ name: '' });

/** The mark of the service: rows of a queue, one after another; or the logo of the product. */
export function Mark() {
  const { logoUrl } = useContext(ProductContext);
  // The name stands beside it.
  if (logoUrl !== undefined) return h('img', { class: 'mark logo', src: logoUrl, alt: '' });
  return h(
    'svg',
    { class: 'mark', viewBox: '0 0 32 32', width: 26, height: 26, 'aria-hidden': true },
    h('rect', { width: 32, height: 32, rx: 8 }),
    h('path', { d: 'M8 10.5h7M8 16h11M8 21.5h7' }),
    h('path', { d: 'm19.5 10 5 6-5 6' }),
  );
}

/** These words for the operator, as a link if there is an address for questions. */
export function OperatorLink({ children }: { children: ComponentChildren }) {
  const { supportUrl } = useContext(ProductContext);
  return supportUrl === undefined ? children : h('a', { href: supportUrl }, children);
}

/** Beside a failure: where to ask. Nothing if there is no address. */
export function AskForHelp() {
  const { supportUrl } = useContext(ProductContext);
  return supportUrl === undefined ? null : [' · ', h('a', { key: 'ask', href: supportUrl }, 'Ask the operator')];
}
