import { h } from 'preact';
import { useContext, useEffect, useRef, useState } from 'preact/hooks';
import { isForOperators, type NavigationItem, navigationItems, type Route, shortTitles } from './page/console-route.ts';
import { Icon } from './page/icons.ts';
import { Mark, ProductContext } from './page/product.ts';
import { paletteKeys } from './shortcuts.ts';

type Props = {
  account: string;
  isOperator: boolean;
  route: Route;
  docsUrl: string;
  openPalette: () => void;
  signOut: () => void;
};

/** The navigation: beside the page, and on a phone above it, behind a button. */
export function Sidebar({ account, isOperator, route, docsUrl, openPalette, signOut }: Props) {
  const [isOpen, setOpen] = useState(false);
  const menuButton = useRef<HTMLButtonElement>(null);
  const { name, supportUrl } = useContext(ProductContext);
  useEffect(() => setOpen(false), [route]);
  const items = navigationItems({ isOperator });
  const [own, operators] = [items.filter(({ page }) => !isForOperators(page)), items.filter(isOperatorItem)];
  const close = () => setOpen(false);
  return h(
    'header',
    {
      class: 'side',
      onKeyDown: (event: KeyboardEvent) => {
        if (!isOpen || event.key !== 'Escape') return;
        close();
        menuButton.current?.focus();
      },
    },
    h(
      'div',
      { class: 'side-head' },
      h('a', { class: 'brand', href: isOperator ? '#service' : '#overview' }, h(Mark, null), name),
      h(
        'button',
        {
          type: 'button',
          ref: menuButton,
          class: 'menu-button',
          'aria-expanded': isOpen,
          'aria-controls': 'menu',
          onClick: () => setOpen(!isOpen),
        },
        h(Icon, { name: 'menu' }),
        'Menu',
      ),
    ),
    isOpen && h('div', { class: 'menu-back', onClick: close }),
    h(
      'div',
      { id: 'menu', class: isOpen ? 'menu open' : 'menu' },
      h(
        'button',
        { type: 'button', class: 'find-button', onClick: openPalette },
        h(Icon, { name: 'search' }),
        h('span', null, isOperator ? 'Find or go to' : 'Go to'),
        h('kbd', { 'aria-hidden': true }, paletteKeys(navigator.platform)),
      ),
      h(
        'nav',
        { 'aria-label': 'Pages' },
        operators.length === 0
          ? h(ItemList, { items: own, route })
          : [
              h(ItemList, { items: operators, route, label: 'Service' }),
              h('p', { class: 'group', 'aria-hidden': true }, 'My account'),
              h(ItemList, { items: own, route, label: 'My account' }),
            ],
      ),
      h(
        'div',
        { class: 'who' },
        h('a', { class: 'item', href: docsUrl }, h(Icon, { name: 'book' }), 'Documentation'),
        supportUrl !== undefined &&
          h('a', { class: 'item', href: supportUrl }, h(Icon, { name: 'support' }), 'Support'),
        h('span', { class: 'account', title: 'Your account' }, account),
        h('button', { type: 'button', onClick: signOut }, 'Sign out'),
      ),
    ),
  );
}

function isOperatorItem({ page }: NavigationItem): boolean {
  return isForOperators(page);
}

type ListProps = { items: readonly NavigationItem[]; route: Route; label?: string };

function ItemList({ items, route, label }: ListProps) {
  return h(
    'ul',
    label === undefined ? null : { 'aria-label': label },
    items.map(({ page, title, icon }) =>
      h(
        'li',
        { key: page },
        h(
          'a',
          { class: 'item', href: `#${page}`, ...(page === route.page && { 'aria-current': 'page' }) },
          h(Icon, { name: icon }),
          shortTitles[page] ?? title,
        ),
      ),
    ),
  );
}
